"""Statements of a shell script: commands, conditions, loops and functions."""

from dataclasses import dataclass

from service.formats.launches.shell.tokens import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayWord:
    """Assignment of a list: ``NAME=(…)``, or ``NAME+=(…)``."""

    name: str
    appends: bool
    tokens: tuple[Word, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simple:
    """A command with its words; what a here-document writes to a file."""

    tokens: tuple[Word | ArrayWord, ...]
    line: int
    target: Word | None = None
    document: Word | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Commands joined by ``&&`` and ``||``."""

    first: "Node"
    following: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class If:
    """Conditions with what runs where they hold."""

    branches: tuple[tuple["Body", "Body"], ...]
    otherwise: "Body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Body that runs for each word, or without a name."""

    name: str
    tokens: tuple[Word, ...]
    body: "Body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Bodies by patterns of one word."""

    subject: Word
    branches: tuple[tuple[tuple[Word, ...], "Body"], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """Body that runs where its name is called."""

    name: str
    body: "Body"


Node = Simple | Chain | If | Loop | Case | Function | tuple["Node", ...]
Body = tuple[Node, ...]
