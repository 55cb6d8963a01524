"""Commands: what starts a program, and the program itself with its words."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from service.formats.launches.sources.argv import Grammar, read_argv
from service.formats.launches.sources.limits import MAX_WORDS, check_size
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
}
"""Programs that start another one on several GPUs, and how their words are cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its words, and what starts it.

    ``program`` is the last part of its path, or a module's name; ``starters`` are the settings of
    what starts it (``torchrun``, ``accelerate``, ``deepspeed``, ``srun``) by its name.
    """

    program: str
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    starters: Mapping[str, Settings] = field(default_factory=dict)


def split_command(text: str) -> tuple[str, ...]:
    """Return the words of one command of a shell.

    Continued lines are joined, comments left out. What the shell would expand stands as it is.
    """
    check_size("the command", text)
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    try:
        for word in lexer:
            words.append(word)
            if len(words) > MAX_WORDS:
                message = f"a command has {MAX_WORDS:,} words at most"
                raise LaunchFormatError(message, field="command")
    except ValueError as error:
        if isinstance(error, LaunchFormatError):
            raise
        message = f"the command cannot be cut into words: {error}"
        raise LaunchFormatError(message, field="command") from None
    return tuple(words)


def read_command(words: Sequence[str], *, where: str = "command") -> Command:
    """Return the program that a command starts.

    Raises LaunchFormatError where there is none.
    """
    environment: dict[str, str] = {}
    starters: dict[str, Settings] = {}
    rest = list(words)
    while rest:
        word = rest[0]
        name = PurePosixPath(word).name
        if _ASSIGNMENT.match(word):
            key, _, value = word.partition("=")
            environment[key] = value
            rest = rest[1:]
        elif name in _BEFORE:
            rest = rest[1:]
        elif _PYTHON.fullmatch(name):
            rest = _skip_python(rest[1:])
            name = PurePosixPath(rest[0]).name if rest else ""
            if name not in STARTERS and name != "torch.distributed.run":
                break
        elif name in STARTERS or name == "torch.distributed.run":
            starter = "torchrun" if name == "torch.distributed.run" else name
            rest = _read_starter(starter, rest[1:], starters, where)
        else:
            break
    if not rest:
        message = "starts no program"
        raise LaunchFormatError(message, where=where, field="command")
    return Command(
        program=PurePosixPath(rest[0]).name,
        words=tuple(rest[1:]),
        environment=environment,
        starters=starters,
    )


def _skip_python(words: list[str]) -> list[str]:
    """Return the words from the script or module on."""
    index = 0
    while index < len(words) and words[index].startswith("-"):
        if words[index] == "-m":
            return words[index + 1 :]
        index += 2 if words[index] in {"-W", "-X"} else 1
    return words[index:]


def _read_starter(
    name: str, words: list[str], starters: dict[str, Settings], where: str
) -> list[str]:
    """Keep a starter's settings; return the words of what it starts."""
    grammar = STARTERS[name]
    if name == "accelerate":
        words = words[1:] if words[:1] == ["launch"] else words
    options, rest = _cut_options(words, grammar)
    starters[name] = read_argv(options, grammar, where=where)
    if rest[:1] == ["--"]:
        rest = rest[1:]
    return rest


def _cut_options(words: list[str], grammar: Grammar) -> tuple[list[str], list[str]]:
    """Return the leading options and the rest."""
    index = 0
    while index < len(words) and words[index].startswith("-") and words[index] != "--":
        text, equals, _ = words[index].lstrip("-").partition("=")
        name = grammar.short.get(text, text.replace("-", "_"))
        takes_value = not equals and name not in grammar.flags
        index += 2 if takes_value else 1
    return words[:index], words[index:]
