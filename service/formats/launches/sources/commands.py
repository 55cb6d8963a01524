"""Commands: what starts a program, and the program itself with its words."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from service.formats.launches.sources.argv import Grammar, read_argv
from service.formats.launches.sources.containers import DOCKER, Container, read_container
from service.formats.launches.sources.limits import MAX_WORDS, check_size, check_words
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Settings

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PYTHON = re.compile(r"python(3(\.[0-9]+)?)?")
_BEFORE = frozenset({"exec", "nohup", "time", "env", "sudo", "uv", "run", "export", "set", "-x"})
_TORCHRUN = Grammar(flags=frozenset({"standalone", "no_python", "run_path", "m", "module"}))
_ACCELERATE = Grammar(
    flags=frozenset({"multi_gpu", "use_deepspeed", "use_fsdp", "cpu", "module", "no_python"}),
    short={"m": "module"},
)
_DEEPSPEED = Grammar(
    flags=frozenset({"no_python", "no_local_rank", "no_ssh", "force_multi", "module"})
)
_MPIRUN = Grammar(
    flags=frozenset(
        {
            *("allow_run_as_root", "oversubscribe", "tag_output", "display_map", "verbose", "v"),
            *(
                "report_bindings",
                "report_uri",
                "nooversubscribe",
                "use_hwthread_cpus",
                "quiet",
                "q",
            ),
        }
    ),
    short={"n": "np", "c": "np", "N": "npernode", "H": "host", "x": "x"},
)
_SRUN = Grammar(
    short={
        "N": "nodes",
        "n": "ntasks",
        "G": "gpus",
        "c": "cpus_per_task",
        "p": "partition",
        "J": "job_name",
        "t": "time",
        "l": "label",
    },
    flags=frozenset({"label", "exclusive", "unbuffered"}),
)
STARTERS: Mapping[str, Grammar] = {
    "torchrun": _TORCHRUN,
    "accelerate": _ACCELERATE,
    "deepspeed": _DEEPSPEED,
    "srun": _SRUN,
    **dict.fromkeys(("mpirun", "mpiexec", "horovodrun"), _MPIRUN),
    **dict.fromkeys(("docker", "podman"), DOCKER),
}
"""Programs that start another one on several GPUs, and how their words are cut."""


_CONTAINERS = frozenset({"docker", "podman"})
_STARTER_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
}
_WITH_COMMANDS = frozenset({"trl"})
"""Programs whose first word says which of their programs runs."""
_RAY_SUBMIT = ["ray", "job", "submit"]
_TWO_VALUES = dict.fromkeys(("mca", "gmca"), 3)
"""Words of an option with its values, where it has two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments, and what starts it.

    ``program`` is the last part of its path, or a module's name; ``starters`` are the settings of
    what starts it (``torchrun``, ``accelerate``, ``deepspeed``, ``srun``) by its name. ``where`` is
    the place of the command, ``version`` that of the container's image, empty without one.
    """

    program: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    starters: Mapping[str, Settings] = field(default_factory=dict)
    where: str = "command"
    version: str = ""
    is_python: bool = False
    """Whether an interpreter runs it."""


def split_command(text: str) -> tuple[str, ...]:
    """Return the words of one command of a shell.

    Continued lines are joined, comments left out. What the shell would expand stands as it is.
    """
    check_size("the command", text)
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    tokens: list[str] = []
    try:
        for word in lexer:
            tokens.append(word)
            if len(tokens) > MAX_WORDS:
                message = f"a command has {MAX_WORDS:,} words at most"
                raise LaunchFormatError(message, field="command")
    except ValueError as error:
        if isinstance(error, LaunchFormatError):
            raise
        message = f"the command cannot be cut into words: {error}"
        raise LaunchFormatError(message, field="command") from None
    return tuple(tokens)


def read_command(tokens: Sequence[str], *, where: str = "command") -> Command:
    """Return the program that a command starts.

    Raises LaunchFormatError where there is none, or too many words.
    """
    check_words(tokens, where)
    environment: dict[str, str] = {}
    starters: dict[str, Settings] = {}
    remaining, version, is_python = _skip_ray(list(tokens)), "", False
    while remaining:
        word = remaining[0]
        name = _STARTER_MODULES.get(PurePosixPath(word).name, PurePosixPath(word).name)
        if _ASSIGNMENT.match(word):
            key, _, value = word.partition("=")
            environment[key] = value
            remaining = remaining[1:]
        elif name in _BEFORE:
            remaining = remaining[1:]
        elif _PYTHON.fullmatch(name):
            remaining, is_python = _skip_python(remaining[1:]), True
            name = PurePosixPath(remaining[0]).name if remaining else ""
            if name not in STARTERS and name not in _STARTER_MODULES:
                break
        elif name in _CONTAINERS:
            container = _read_container(name, remaining[1:], starters, where)
            remaining, version = list(container.tokens), container.version
        elif name in STARTERS:
            remaining = _read_starter(name, remaining[1:], starters, where)
        else:
            break
    if not remaining:
        message = "starts no program"
        raise LaunchFormatError(message, where=where, field="command")
    program = PurePosixPath(remaining[0]).name
    if program in _WITH_COMMANDS and len(remaining) > 1:
        program, remaining = f"{program} {remaining[1]}", remaining[1:]
    return Command(
        program=program,
        arguments=tuple(remaining[1:]),
        environment=environment,
        starters=starters,
        where=where,
        version=version,
        is_python=is_python,
    )


def _skip_ray(tokens: list[str]) -> list[str]:
    """Return the words without those of ``ray job submit``.

    Ray's options say where a job runs, not what it takes.
    """
    begin = tokens.index("ray") if "ray" in tokens else len(tokens)
    if tokens[begin : begin + len(_RAY_SUBMIT)] != _RAY_SUBMIT or "--" not in tokens[begin:]:
        return tokens
    return [*tokens[:begin], *tokens[tokens.index("--", begin) + 1 :]]


def _skip_python(tokens: list[str]) -> list[str]:
    """Return the words from the script or module on."""
    index = 0
    while index < len(tokens) and tokens[index].startswith("-"):
        if tokens[index] == "-m":
            return tokens[index + 1 :]
        index += 2 if tokens[index] in {"-W", "-X"} else 1
    return tokens[index:]


def _read_starter(
    name: str, tokens: list[str], starters: dict[str, Settings], where: str
) -> list[str]:
    """Keep a starter's settings; return the words of what it starts."""
    grammar = STARTERS[name]
    tokens = tokens[1:] if tokens[:1] in (["launch"], ["run"], ["exec"]) else tokens
    options, remaining = _cut_options(tokens, grammar)
    starters[name] = read_argv(options, grammar, where=where)
    if remaining[:1] == ["--"]:
        remaining = remaining[1:]
    return remaining


def _cut_options(tokens: list[str], grammar: Grammar) -> tuple[list[str], list[str]]:
    """Return the leading options and the rest."""
    index = 0
    while index < len(tokens) and tokens[index].startswith("-") and tokens[index] != "--":
        text, equals, _ = tokens[index].lstrip("-").partition("=")
        name = grammar.short.get(text, text.replace("-", "_"))
        takes_value = not equals and name not in grammar.flags
        index += _TWO_VALUES.get(name, 2) if takes_value else 1
    return tokens[:index], tokens[index:]


def _read_container(
    name: str, tokens: list[str], starters: dict[str, Settings], where: str
) -> Container:
    """Keep the options of ``docker run``; return what its image runs."""
    remaining = _read_starter(name, tokens, starters, where)
    if not remaining:
        return Container(tokens=())
    entry = starters[name].take("entrypoint")
    entrypoint = [] if entry is None else str(entry.value).split()
    return read_container(remaining[0], remaining[1:], entrypoint)
