"""Everything that was handed in, parsed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from service.formats.launches.sources.cloud_tasks import is_cloud_task
from service.formats.launches.sources.commands import (
    Command,
    read_command,
    skip_job_options,
)
from service.formats.launches.sources.containers import is_manifest, split_documents
from service.formats.launches.sources.documents import flatten, read_document
from service.formats.launches.sources.limits import MAX_CHARACTERS, MAX_FILES, check_size
from service.formats.launches.sources.notebooks import SUFFIX as NOTEBOOK
from service.formats.launches.sources.notebooks import read_notebook
from service.formats.launches.values.allocation import Allocation
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Checkpoint, Launch, LaunchFile
from service.formats.launches.values.settings import Setting, Settings

_DOCUMENTS = frozenset({".yaml", ".yml", ".json"})
_SHELL_SUFFIXES = frozenset({".sh", ".slurm", ".sbatch", ".bash"})
_SCRIPTS = _SHELL_SUFFIXES | {".py", ".toml", ".service", NOTEBOOK}
_SHELLS = frozenset({"bash", "sh", "sbatch", "source", "."})


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedIn:
    """Documents, scripts and manifests by file, the command and the arguments.

    ``unknown`` are options of a script's command whose values come from outside of it.
    """

    launch: Launch
    documents: Mapping[str, Settings] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    manifests: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[Setting, ...] = ()
    command: Command | None = None
    idle: tuple[Command, ...] = ()
    """Commands of a script, none of which starts a launcher."""
    arguments: Settings = field(default_factory=Settings)
    allocation: Allocation | None = None

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
    manifests: dict[str, str] = {}
    for file in launch.files:
        check_size(file.name, file.content)
        if file.name in documents or file.name in scripts or file.name in manifests:
            message = "was handed in twice"
            raise LaunchFormatError(message, where=file.name)
        if is_script(file.name, file.content):
            is_notebook = PurePosixPath(file.name).suffix.casefold() == NOTEBOOK
            scripts[file.name] = (
                read_notebook(file.name, file.content) if is_notebook else file.content
            )
            continue
        first = [file.content, *split_documents(file.content)[:1]][-1]
        document = read_document(file.name, first)
        if is_manifest(document) or is_cloud_task(document):
            manifests[file.name] = file.content
        else:
            is_first = first == file.content
            documents[file.name] = document if is_first else _read_whole(file)
    return HandedIn(
        launch=launch,
        documents=documents,
        scripts=scripts,
        manifests=manifests,
        command=None if not launch.command else _read_typed(launch.command, scripts),
        arguments=flatten(launch.arguments, "arguments"),
    )


def _read_whole(file: LaunchFile) -> Settings:
    """Return the one document of a file, whatever separates it from nothing."""
    parts = split_documents(file.content)
    return read_document(file.name, parts[0] if len(parts) == 1 else file.content)


def _read_typed(tokens: tuple[str, ...], scripts: Mapping[str, str]) -> Command | None:
    """Return the typed command, None where it runs a script."""
    command = read_command(tokens)
    return None if find_typed_script(tokens, scripts) else command


def find_typed_script(tokens: Sequence[str], scripts: Mapping[str, str]) -> str | None:
    """Return the shell script that a command runs, None without."""
    names = {PurePosixPath(name).name: name for name in scripts if is_shell(name, scripts[name])}
    for word in skip_job_options(tokens):
        name = PurePosixPath(word).name
        if name in names:
            return names[name]
        if name not in _SHELLS and "=" not in word and not word.startswith("-"):
            break
    return None


def find_absent_script(command: Command) -> str | None:
    """Return the shell script that a command runs, None without."""
    arguments = command.arguments if command.program in _SHELLS else ()
    script = next((word for word in arguments if not word.startswith("-")), command.program)
    return script if PurePosixPath(script).suffix.casefold() in _SHELL_SUFFIXES else None


def is_shell(name: str, content: str) -> bool:
    """Return whether a program is a shell's."""
    first = content.partition("\n")[0]
    suffix = PurePosixPath(name).suffix.casefold()
    return suffix in _SHELL_SUFFIXES or (first.startswith("#!") and first.endswith("sh"))


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
