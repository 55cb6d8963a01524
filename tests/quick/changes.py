"""Which files a change touches."""

import subprocess
from pathlib import Path

MAIN = "main"


def find_base(root: Path, since: str | None) -> str:
    """Return the commit that a change began at.

    It is where the branch left main; without such a commit, the last one.
    """
    if since is not None:
        return _run_git(root, "rev-parse", "--verify", f"{since}^{{commit}}")
    try:
        return _run_git(root, "merge-base", "HEAD", MAIN)
    except subprocess.CalledProcessError:
        return _run_git(root, "rev-parse", "HEAD")


def list_changes(root: Path, base: str) -> frozenset[str]:
    """Return the files that differ from a commit, new ones too, deleted ones not."""
    differing = _run_git(root, "diff", "--name-only", "--no-renames", "--diff-filter=d", base)
    new = _run_git(root, "ls-files", "--others", "--exclude-standard")
    return frozenset(
        path for path in (*differing.splitlines(), *new.splitlines()) if (root / path).is_file()
    )


def _run_git(root: Path, *arguments: str) -> str:
    run = subprocess.run(
        ["git", "-C", str(root), *arguments],  # noqa: S607 - whoever changes files has a git
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()
