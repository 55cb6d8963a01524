"""What a change touches, asked of a repository of the test's own."""

import subprocess
from pathlib import Path

import pytest

from tests.quick.changes import find_base, list_changes

_AUTHOR = ("-c", "user.name=a test", "-c", "user.email=test@example.org")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with one commit on main and one on a branch."""
    _git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    _commit(tmp_path, "old.py")
    _git(tmp_path, "checkout", "--quiet", "-b", "branch")
    _commit(tmp_path, "committed.py")
    return tmp_path


def test_a_change_is_what_was_committed_since_main_and_what_was_not_yet(repository: Path) -> None:
    """Commits of the branch, edits and new files belong to it; deleted files do not."""
    (repository / "new.py").touch()
    (repository / "committed.py").write_text("edited")
    (repository / "old.py").unlink()

    changed = list_changes(repository, find_base(repository, None))

    assert changed == {"committed.py", "new.py"}


def test_a_commit_may_be_named(repository: Path) -> None:
    """Since the last commit nothing has changed."""
    assert list_changes(repository, find_base(repository, "HEAD")) == frozenset()


def test_without_main_a_change_is_what_is_not_committed(repository: Path) -> None:
    """A clone of one branch alone has no main to compare with."""
    _git(repository, "branch", "--quiet", "-D", "main")
    (repository / "new.py").touch()

    assert list_changes(repository, find_base(repository, None)) == {"new.py"}


def _commit(repository: Path, name: str) -> None:
    (repository / name).touch()
    _git(repository, "add", name)
    _git(repository, *_AUTHOR, "commit", "--quiet", "--message", f"Add {name}")


def _git(repository: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-C", str(repository), "-c", "core.hooksPath=/dev/null", *arguments],  # noqa: S607 - any git
        check=True,
    )
