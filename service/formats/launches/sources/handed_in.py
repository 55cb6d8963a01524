"""Everything that was handed in, parsed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from service.formats.launches.sources.commands import Command, read_command
from service.formats.launches.sources.documents import flatten, read_document
from service.formats.launches.sources.limits import MAX_CHARACTERS, MAX_FILES, check_size
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Checkpoint, Launch
from service.formats.launches.values.settings import Settings

_DOCUMENTS = frozenset({".yaml", ".yml", ".json"})
_SCRIPTS = frozenset({".py", ".sh", ".slurm", ".sbatch", ".bash", ".toml"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedIn:
    """Documents and scripts by file, the command and the arguments."""

    launch: Launch
    documents: Mapping[str, Settings] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    command: Command | None = None
    arguments: Settings = field(default_factory=Settings)

    def find_document(self, name: str) -> Settings | None:
        """Return the document that a path names, None where there is none.

        Folders are another machine's: the last part of the path is what counts.
        """
        filename = PurePosixPath(name).name
        matches = [
            settings
            for path, settings in self.documents.items()
            if PurePosixPath(path).name == filename
        ]
        return matches[0] if matches else None

    def find_checkpoint(self, model: str | None) -> Checkpoint | None:
        """Return what is known of the model."""
        name = self.launch.model or model
        return None if name is None else self.launch.find_checkpoint(name)


def parse_launch(launch: Launch) -> HandedIn:
    """Return the parsed files, command and arguments.

    Raises LaunchFormatError for what cannot be read, or is too much.
    """
    _check_amount(launch)
    documents: dict[str, Settings] = {}
    scripts: dict[str, str] = {}
    for file in launch.files:
        check_size(file.name, file.content)
        if file.name in documents or file.name in scripts:
            message = "was handed in twice"
            raise LaunchFormatError(message, where=file.name)
        if is_script(file.name, file.content):
            scripts[file.name] = file.content
        else:
            documents[file.name] = read_document(file.name, file.content)
    return HandedIn(
        launch=launch,
        documents=documents,
        scripts=scripts,
        command=read_command(launch.command) if launch.command else None,
        arguments=flatten(launch.arguments, "arguments"),
    )


def is_script(name: str, content: str) -> bool:
    """Return whether a file is a program, by name or first line."""
    suffix = PurePosixPath(name).suffix.casefold()
    return suffix in _SCRIPTS or (suffix not in _DOCUMENTS and content.startswith("#!"))


def _check_amount(launch: Launch) -> None:
    if len(launch.files) > MAX_FILES:
        message = f"{len(launch.files)} files; a launch has {MAX_FILES} at most"
        raise LaunchFormatError(message)
    total = sum(len(file.content) for file in launch.files)
    if total > MAX_CHARACTERS:
        message = f"the files have {total:,} characters; {MAX_CHARACTERS:,} are read at most"
        raise LaunchFormatError(message)
    if not (launch.files or launch.command or launch.arguments):
        message = "nothing to read: give files, a command or arguments"
        raise LaunchFormatError(message)
