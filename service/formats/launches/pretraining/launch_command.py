"""Command of a pretraining program, typed in or in a shell script."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from service.formats.launches.shell.expansion import ShellWord
from service.formats.launches.shell.script import Script, read_script
from service.formats.launches.sources.argv import Grammar, read_argv
from service.formats.launches.sources.commands import STARTERS, Command
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.processes import (
    Processes,
    account_starters,
    count_processes,
)
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings

_SHELL_SUFFIXES = frozenset({".sh", ".bash", ".slurm", ".sbatch", ".sub", ""})
_STARTER_NAMES: Mapping[str, str] = {
    **{name: name for name in STARTERS},
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "ft_launcher": "torchrun",
}
_UNRESOLVED = "$"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCommand:
    """Arguments of a program, and what starts it.

    ``lines`` are those of item word of a script by its text, empty for a typed command.
    """

    command: Command
    where: str
    lines: Mapping[str, int] = field(default_factory=dict)

    def read_arguments(self, grammar: Grammar) -> Settings:
        """Return the program's arguments, item with its line."""
        settings = read_argv(self.command.arguments, grammar, where=self.where)
        located = {
            name: replace(setting, where=self._locate(setting))
            for name, setting in settings.take_all().items()
        }
        return Settings(located)

    def _locate(self, setting: Setting) -> str:
        line = self.lines.get(setting.key)
        return self.where if line is None else f"{self.where}:{line}"


def find_command(
    handed_in: HandedIn, programs: frozenset[str], draft: Draft
) -> LaunchCommand | None:
    """Return the command of a program, None where there is none.

    A typed command comes before a script's. Of several in a script the first is read, and a
    warning names the others.
    """
    fields = [ShellWord(text=text, line=0) for text in handed_in.launch.command]
    if fields:
        return _make_command(fields, programs, "command")
    for name, text in handed_in.scripts.items():
        if PurePosixPath(name).suffix.casefold() not in _SHELL_SUFFIXES:
            continue
        script = read_script(name, text)
        matches = [item for item in script.commands if _find_program(item, programs) is not None]
        if not matches:
            continue
        _warn(name, script, len(matches), draft)
        return _join_directives(_make_command(matches[0], programs, name), script, name)
    return None


def count_ranks(handed_in: HandedIn, launch: LaunchCommand | None, draft: Draft) -> Processes:
    """Return how many processes a command starts; account for what starts it."""
    if launch is None:
        return Processes(is_started=False)
    processes = count_processes(replace(handed_in, command=launch.command), None)
    account_starters(launch.command.starters, draft)
    return processes


def _warn(name: str, script: Script, count: int, draft: Draft) -> None:
    if count > 1:
        draft.warn(f"{name} starts {count} programs; the first is read")
    for line in script.skipped:
        draft.warn(f"{name}:{line}: what this condition decides is not read: only a run tells it")


def _find_program(fields: Sequence[ShellWord], programs: frozenset[str]) -> int | None:
    for index, word in enumerate(fields):
        if PurePosixPath(word.text).name in programs:
            return index
    return None


def _make_command(
    fields: Sequence[ShellWord], programs: frozenset[str], where: str
) -> LaunchCommand:
    """Return the command with its starters.

    Without the program, all its fields are arguments.
    """
    index = _find_program(fields, programs)
    before = fields[:index] if index is not None else ()
    arguments = fields[index + 1 :] if index is not None else fields
    environment = {
        name: value
        for name, equals, value in (word.text.partition("=") for word in before)
        if equals and name.isidentifier()
    }
    command = Command(
        program=PurePosixPath(fields[index].text).name if index is not None else "",
        arguments=tuple(word.text for word in arguments),
        environment=environment,
        starters=_read_starters(before, where),
    )
    lines = {word.text.partition("=")[0]: word.line for word in arguments if word.line}
    return LaunchCommand(command=command, where=where, lines=lines)


def _read_starters(fields: Sequence[ShellWord], where: str) -> dict[str, Settings]:
    """Return the options of item starter before the program."""
    starters: dict[str, Settings] = {}
    name, options = "", list[str]()
    for word in [*fields, ShellWord(text="torchrun", line=0)]:
        following = _STARTER_NAMES.get(PurePosixPath(word.text).name)
        if following is None:
            options.append(word.text)
            continue
        if name:
            starters[name] = _drop_unnamed(read_argv(options, STARTERS[name], where=where))
        name, options = following, []
    return starters


def _drop_unnamed(settings: Settings) -> Settings:
    """Return options alone: the interpreter's fields have no names."""
    return Settings(
        {
            name: setting
            for name, setting in settings.take_all().items()
            if not name.startswith("argument_")
        }
    )


def _join_directives(launch: LaunchCommand, script: Script, name: str) -> LaunchCommand:
    """Return a script's command with Slurm's directives and exported variables."""
    command = launch.command
    exported = {
        key: script.variables[key]
        for key in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "NNODES", "NPROC_PER_NODE")
        if _UNRESOLVED not in script.variables.get(key, _UNRESOLVED)
    }
    starters = dict(command.starters)
    if script.directives and (starters.keys() <= {"srun"}):
        directives = read_argv(script.directives, STARTERS["srun"], where=name)
        starters["srun"] = starters.get("srun", Settings()).merge(directives)
    command = replace(command, starters=starters, environment={**exported, **command.environment})
    return replace(launch, command=command)
