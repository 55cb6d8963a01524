"""The one launch among the commands of shell scripts and containers."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import PurePosixPath

from service.formats.launches.shell.inner_shells import find_shell, name_arguments
from service.formats.launches.shell.scripts import MAX_COMMANDS, ScriptCommand, read_script
from service.formats.launches.shell.variables import is_open, is_unknown
from service.formats.launches.sources.argv import read_argv
from service.formats.launches.sources.commands import STARTERS, Command, read_command
from service.formats.launches.sources.containers import Container
from service.formats.launches.sources.documents import read_document
from service.formats.launches.sources.handed_in import HandedIn, find_typed_script, is_shell
from service.formats.launches.sources.kubeflow import NODES, PROCESSES
from service.formats.launches.sources.serving_objects import list_containers
from service.formats.launches.sources.units import SUFFIX, list_unit_commands
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings

_SBATCH = re.compile(r"^#SBATCH[ \t]+([^#\n]*)", re.MULTILINE)
_COUNTS = ("nodes", "ntasks", "ntasks_per_node")
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
    variables, typed = _read_typed(handed_in)
    for name, text in handed_in.scripts.items():
        if is_shell(name, text) and typed in {None, name}:
            of_script, files = list_script_commands(name, text, variables)
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
        return handed_in
    command, unknown = cut_unknown(command)
    documents = dict(handed_in.documents)
    for path, text in written.items():
        name = PurePosixPath(path).name
        is_named = any(name in word for word in command.arguments)
        if PurePosixPath(name).suffix in _DOCUMENTS and is_named and name not in documents:
            documents[name] = read_document(name, text)
    return replace(handed_in, command=command, unknown=tuple(unknown), documents=documents)


def _read_typed(handed_in: HandedIn) -> tuple[dict[str, str], str | None]:
    """Return the variables and arguments of a typed script, and its name."""
    tokens = handed_in.launch.command
    typed = find_typed_script(tokens, handed_in.scripts) if tokens else None
    if typed is None:
        return {}, None
    filename = PurePosixPath(typed).name
    index = next(i for i, word in enumerate(tokens) if PurePosixPath(word).name == filename)
    pairs = [word.partition("=") for word in tokens[:index] if "=" in word]
    variables = {name: value for name, _, value in pairs}
    return variables | {str(n): word for n, word in enumerate(tokens[index + 1 :], 1)}, typed


def list_script_commands(
    name: str, text: str, variables: Mapping[str, str]
) -> tuple[list[Command], Mapping[str, str]]:
    """Return commands of a shell script, and files it writes."""
    slurm = _read_directives(name, text)
    script = read_script(name, text, {**_list_slurm_variables(slurm), **variables})
    commands = [
        _add_directives(command, slurm)
        for tokens in script.commands
        for command in _read_words(name, tokens)
    ]
    return commands, script.files


def list_manifest_commands(name: str, text: str) -> list[Command]:
    """Return the commands of a manifest's containers."""
    return [
        replace(command, version=container.version, pod=container.pod)
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
    for rank, command in ranked:
        if rank == best and not any(_is_same(command, former) for former in chosen):
            chosen.append(command)
    if not best or not chosen:
        return None
    if len(chosen) > 1:
        places = ", ".join(map(_describe, chosen[:6]))
        message = f"{len(chosen)} launches: {places}; hand in the one that is meant as a command"
        raise LaunchFormatError(message)
    return chosen[0]


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


def _read_directives(name: str, text: str) -> Settings:
    tokens = [word for match in _SBATCH.findall(text) for word in _split_directive(match)]
    settings = read_argv(tokens, STARTERS["srun"], where=f"{name}, #SBATCH").take_all()
    nodes = settings.get("nodes")
    if nodes is not None:
        # Of 2-4 nodes the fewest, which the job may get.
        settings["nodes"] = replace(nodes, value=str(nodes.value).partition("-")[0])
    return Settings(settings)


def _split_directive(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _list_slurm_variables(slurm: Settings) -> dict[str, str]:
    """Return what Slurm tells a script of its directives (``sbatch``, OUTPUT ENVIRONMENT)."""
    values = {name: str(entry.value) for name in _COUNTS if (entry := slurm.peek(name)) is not None}
    variables: dict[str, str] = {}
    gpus = slurm.peek("gpus_per_node") or slurm.peek("gres")
    if gpus is not None and "ntasks" not in values:
        # A job of one task runs on one node.
        values.setdefault("nodes", "1")
    if "nodes" in values:
        variables |= dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), values["nodes"])
    if "ntasks" in values:
        variables["SLURM_NTASKS"] = values["ntasks"]
    if "ntasks_per_node" in values:
        variables["SLURM_NTASKS_PER_NODE"] = values["ntasks_per_node"]
    count = "" if gpus is None else _count_gpus(str(gpus.value))
    if count.isdecimal():
        variables |= dict.fromkeys(("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"), count)
    return variables


def _add_directives(command: Command, slurm: Settings) -> Command:
    """Return a command of a job, whose ``srun`` has its numbers."""
    steps = command.starters.get("srun")
    if steps is None:
        return replace(command, slurm=slurm)
    counts = Settings({name: entry for name in _COUNTS if (entry := slurm.peek(name)) is not None})
    # An option of the step wins over the job's; neither is accounted for by being looked at.
    options = {name: entry for name in slurm if (entry := slurm.peek(name)) is not None}
    options |= {name: entry for name in steps if (entry := steps.peek(name)) is not None}
    starters = {**command.starters, "srun": steps.merge(counts)}
    return replace(command, starters=starters, slurm=Settings(options))


def _count_gpus(text: str) -> str:
    """Return the number in ``gpu:a100:4,lscratch:100``, empty without one."""
    parts = [part.split("(")[0] for part in text.split(",")]
    gpus = [part for part in parts if part.startswith(("gpu", "gres/gpu"))] or parts[:1]
    number = gpus[0].rpartition(":")[2] if gpus else ""
    if number.isdecimal():
        return number
    return "1" if number.isidentifier() else ""
