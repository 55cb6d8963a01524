"""Public launch files by repository, commit and path."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from service.formats.launches.sources.command_lines import split_command
from service.formats.launches.values.launch import Launch, LaunchFile
from tests.corpus.commands import list_documented_commands, list_served_commands

_GIT = shutil.which("git") or "git"
MANIFEST = Path(__file__).with_name("manifest.txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A launch: files of one commit, or the nth command that a file documents."""

    repository: str
    commit: str
    paths: tuple[str, ...]
    number: int | None = None
    command: str = ""
    """What is typed beside the files."""

    @property
    def project(self) -> str:
        """The repository's name without its owner."""
        return self.repository.rpartition("/")[2]

    @property
    def place(self) -> str:
        """Repository, commit and path."""
        number = "" if self.number is None else f"#{self.number}"
        command = f" :: {self.command}" if self.command else ""
        return f"{self.repository}@{self.commit[:8]}:{self.paths[0]}{number}{command}"


def read_manifest(text: str) -> Iterator[Entry]:
    """Yield the launches of a manifest.

    A line ``owner/name@commit`` heads the lines of its paths; ``+`` joins the files of one launch,
    ``#2`` is the second command that a file documents, ``::`` precedes what is typed beside them.
    """
    repository, commit = "", ""
    for line in text.splitlines():
        if line.strip() and not line.startswith(" "):
            repository, _, commit = line.strip().partition("@")
        elif line.strip():
            place, _, command = line.strip().partition(" :: ")
            path, _, number = place.partition("#")
            yield Entry(
                repository=repository,
                commit=commit,
                paths=tuple(path.split("+")),
                number=int(number) if number else None,
                command=command,
            )


def read_entry(clones: Path, entry: Entry) -> Launch:
    """Return a launch from the clone of its repository, a folder ``owner+name``."""
    clone = clones / entry.repository.replace("/", "+")
    texts = {path: _show(clone, entry.commit, path) for path in entry.paths}
    if entry.number is None:
        files = tuple(LaunchFile(name=path, content=text) for path, text in texts.items())
        return Launch(files=files, command=split_command(entry.command) if entry.command else ())
    path = entry.paths[0]
    list_commands = list_served_commands if path.endswith(".md") else list_documented_commands
    return Launch(command=split_command(list_commands(texts[path])[entry.number - 1]))


def _show(clone: Path, commit: str, path: str) -> str:
    shown = subprocess.run(
        [_GIT, "-C", clone, "show", f"{commit}:{path}"], capture_output=True, check=True
    )
    return shown.stdout.decode("utf-8", "replace")
