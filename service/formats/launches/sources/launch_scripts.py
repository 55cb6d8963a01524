"""The one launch among the commands of shell scripts and containers."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import PurePosixPath

from service.formats.launches.shell.inner_shells import find_shell, name_arguments
from service.formats.launches.shell.scripts import MAX_COMMANDS, Script, ScriptCommand, read_script
from service.formats.launches.shell.variables import is_open, is_unknown
from service.formats.launches.sources.commands import Command, add_job, read_command
from service.formats.launches.sources.containers import Container
from service.formats.launches.sources.documents import read_document
from service.formats.launches.sources.handed_in import HandedIn, find_typed_script, is_shell
from service.formats.launches.sources.kubeflow import NODES, PROCESSES
from service.formats.launches.sources.serving_objects import list_containers
from service.formats.launches.sources.slurm_jobs import (
    SlurmOptions,
    join_options,
    list_slurm_variables,
    read_jobs,
)
from service.formats.launches.sources.units import SUFFIX, list_unit_commands
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings

_MODULE = re.compile(r"[\w.]+\.py|\w+(\.\w+)+")
_DOCUMENTS = frozenset({".json", ".yaml", ".yml"})
_MAX_SHOWN, _MAX_TEXT = 2, 80
_KNOWN, _STARTED, _PYTHON = 3, 2, 1


def find_launch(handed_in: HandedIn, programs: frozenset[str]) -> HandedIn:
    """Return everything with the command of a shell script or container.

    ``programs`` are those of launchers. Raises LaunchFormatError where several are started.
    """
    commands: list[Command] = []
    written: dict[str, str] = {}
    variables, typed, job = _read_typed(handed_in)
    for name, text in handed_in.scripts.items():
        if is_shell(name, text) and typed in {None, name}:
            of_script, files = list_script_commands(name, text, variables, job)
            commands += of_script
            written |= files
        elif PurePosixPath(name).suffix == SUFFIX:
            for started in list_unit_commands(name, text):
                commands += _read_words(name, started)
    for name, text in handed_in.manifests.items():
        commands += list_manifest_commands(name, text)
    if len(commands) > MAX_COMMANDS:
        message = f"{len(commands):,} commands; a launch has {MAX_COMMANDS:,} at most"
        raise LaunchFormatError(message)
    command = choose_command(commands, programs)
    if command is None:
        return replace(handed_in, idle=tuple(commands))
    command, unknown = cut_unknown(command)
    documents = dict(handed_in.documents)
    for path, text in written.items():
        name = PurePosixPath(path).name
        is_named = any(name in word for word in command.arguments)
        if PurePosixPath(name).suffix in _DOCUMENTS and is_named and name not in documents:
            documents[name] = read_document(name, text)
    return replace(handed_in, command=command, unknown=tuple(unknown), documents=documents)


def _read_typed(handed_in: HandedIn) -> tuple[dict[str, str], str | None, Settings | None]:
    """Return a typed script's variables, its name and its job.

    Arguments are variables by their numbers.
    """
    tokens = handed_in.launch.command
    typed = find_typed_script(tokens, handed_in.scripts) if tokens else None
    if typed is None:
        return {}, None, None
    filename = PurePosixPath(typed).name
    index = next(i for i, word in enumerate(tokens) if PurePosixPath(word).name == filename)
    pairs = [word.partition("=") for word in tokens[:index] if "=" in word]
    variables = {name: value for name, _, value in pairs}
    arguments = {str(n): word for n, word in enumerate(tokens[index + 1 :], 1)}
    return variables | arguments, typed, read_command(tokens[: index + 1]).slurm


def list_script_commands(
    name: str, text: str, variables: Mapping[str, str], typed: Settings | None = None
) -> tuple[list[Command], Mapping[str, str]]:
    """Return commands of a shell script, and files it writes.

    ``typed`` are options of its job that are not the script's.
    """
    jobs = read_jobs(name, text)
    slurm = join_options(typed, jobs[0].first)
    script = read_script(name, text, {**list_slurm_variables(slurm), **variables})
    commands = list(_read_script_commands(name, script))
    options = next((command.slurm for command in commands if command.slurm), None)
    if options is not None:
        # The script starts a job of its own, whose variables its words may have.
        slurm = join_options(options, slurm)
        script = read_script(name, text, {**list_slurm_variables(slurm), **variables})
        commands = list(_read_script_commands(name, script))
    placed = [_add_job(one, jobs.get(_get_line(one), jobs[0]), typed) for one in commands]
    return placed, script.files


def _get_line(command: Command) -> int:
    """Return the line of a script that a command stands in."""
    line = command.where.rpartition(":")[2]
    return int(line) if line.isdecimal() else 0


def _read_script_commands(name: str, script: Script) -> Iterator[Command]:
    for tokens in script.commands:
        yield from _read_words(name, tokens)


def _add_job(command: Command, job: SlurmOptions, typed: Settings | None) -> Command:
    """Return a command on the component that its ``srun`` names."""
    steps = command.starters.get("srun")
    group = None if steps is None else steps.take("het_group", "pack_group")
    component, remarks = job.choose(group)
    options = join_options(command.slurm or typed, component)
    return replace(add_job(command, options), remarks=remarks)


def list_manifest_commands(name: str, text: str) -> list[Command]:
    """Return the commands of a manifest's containers."""
    return [
        replace(command, version=container.version, pod=container.pod, gpus=container.gpus)
        for container in list_containers(name, text)
        for tokens in _open_shell(name, container)
        for command in _read_words(name, tokens)
    ]


def choose_command(commands: Iterable[Command], programs: frozenset[str]) -> Command | None:
    """Return the one command that starts a launcher, None without.

    Raises LaunchFormatError where several do.
    """
    ranked = [(_rank(command, programs), command) for command in commands]
    best = max((rank for rank, _ in ranked), default=0)
    chosen: list[Command] = []
    for command in (command for rank, command in ranked if rank == best):
        place = next((i for i, former in enumerate(chosen) if _is_same(command, former)), None)
        if place is None:
            chosen.append(command)
        elif command.pod is None and _list_options(command) != _list_options(chosen[place]):
            remark = (
                f"{command.where} starts the same with other options of what starts it, and "
                f"{chosen[place].where} counts"
            )
            remarks = (*chosen[place].remarks, remark)
            chosen[place] = replace(chosen[place], remarks=tuple(dict.fromkeys(remarks)))
        elif command.pod is not None:
            pods = (*chosen[place].other_pods, command.pod)
            chosen[place] = replace(chosen[place], other_pods=pods)
    if not best or not chosen:
        return None
    if len(chosen) > 1:
        places = ", ".join(map(_describe, chosen[:6]))
        message = f"{len(chosen)} launches: {places}; hand in the one that is meant as a command"
        raise LaunchFormatError(message)
    return chosen[0]


def _list_options(command: Command) -> dict[str, dict[str, str]]:
    """Return the options of what starts a command, by its name."""
    return {
        name: {key: str(entry.value) for key in starter if (entry := starter.peek(key)) is not None}
        for name, starter in command.starters.items()
    }


def _describe(command: Command) -> str:
    """Return a command's program, what it is about, and its place."""
    subject = takewhile(lambda word: not word.startswith("-"), command.arguments[:_MAX_SHOWN])
    text = " ".join((command.program, *subject))
    return f"{text[:_MAX_TEXT]} ({command.where})"


def cut_unknown(command: Command) -> tuple[Command, list[Setting]]:
    """Return a command without options from outside, and those."""
    arguments: list[str] = []
    unknown: list[Setting] = []
    for word in command.arguments:
        name, equals, value = word.partition("=")
        key = name if equals else (arguments[-1] if arguments else "")
        if equals and is_open(value) and not is_unknown(name):
            unknown.append(Setting(key=name, value=value, where=command.where))
        elif is_open(word) and key.startswith("-") and not equals:
            arguments.pop()
            unknown.append(Setting(key=key, value=word, where=command.where))
        elif is_open(word):
            unknown.append(Setting(key=word, value=word, where=command.where))
        else:
            arguments.append(word)
    return replace(command, arguments=tuple(arguments)), unknown


def _rank(command: Command, programs: frozenset[str]) -> int:
    if any(fnmatchcase(command.program, program) for program in programs):
        return _KNOWN
    if command.starters.keys() - {"docker"}:
        return _STARTED if _MODULE.fullmatch(command.program) else 0
    is_python = command.is_python or command.program.endswith(".py")
    return _PYTHON if is_python else 0


def _is_same(first: Command, second: Command) -> bool:
    return (first.program, first.arguments) == (second.program, second.arguments)


def _read_words(name: str, script: ScriptCommand) -> Iterator[Command]:
    """Yield the command that words start; nothing for those that start none."""
    where = f"{name}:{script.line}"
    tokens = [part for word in script.tokens for part in _cut_option(word)]
    try:
        command = read_command(tokens, where=where)
    except LaunchFormatError:
        return
    environment = {**script.environment, **command.environment}
    yield replace(command, environment=environment)


def _cut_option(word: str) -> list[str]:
    """Return the words of an option quoted with its value."""
    is_option = word.startswith("--") and "=" not in word
    return word.split() if is_option and " " in word else [word]


def _open_shell(name: str, container: Container) -> Iterator[ScriptCommand]:
    """Yield a container's commands: those of ``sh -c``'s text, or itself."""
    inner = find_shell(container.tokens)
    if inner is not None and inner[0] == 0:
        text = container.tokens[inner[1]]
        variables = name_arguments(container.tokens[inner[1] + 1 :])
        for command in read_script(name, text, {**container.environment, **variables}).commands:
            # A variable that the text names is in its words, and torchrun reads its own anyway.
            unnamed = {
                key: value
                for key, value in container.environment.items()
                if key not in text or key in {NODES, PROCESSES}
            }
            yield replace(command, environment={**unnamed, **command.environment})
    else:
        yield ScriptCommand(tokens=container.tokens, line=1, environment=container.environment)
