"""Texts that a pattern may go over again and again: a beginning, a part that is repeated, an end.

They are read off the pattern's own tree: what stands before each repeat, what it takes (of that
first what those behind it take as well), and what nothing takes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from re import _constants as tokens  # type: ignore[attr-defined]  # the parser of ``re`` itself
from typing import Any

from tests.patterns.steps import REPEATS, Nodes, SteppingMatcher, read_acceptor

_SIGNS = " a0-._/\\,=:\"'\n\tAx1e(){}[]<>|&;$#*+!?@%~^`\u00e9" + "".join(map(chr, range(33, 127)))
_ENDS = ("", "\n\x00")
_NEXT = 6
"""Nodes behind a repeat that are looked at."""
_FINAL = frozenset((tokens.ASSERT, tokens.ASSERT_NOT))


@dataclass(frozen=True, slots=True, order=True)
class Pump:
    """A text of any length."""

    begin: str
    part: str
    end: str

    def make(self, number: int) -> str:
        """Return it with so many parts."""
        return f"{self.begin}{self.part * number}{self.end}"


def list_pumps(matcher: SteppingMatcher) -> list[Pump]:
    """Return every pump of a pattern."""
    found = _Finder()
    found.walk(list(matcher.tree), matcher.flags, "", [])
    for number in range(3):
        whole = make_sample(list(matcher.tree), matcher.flags, number)
        found.pumps |= {Pump("", part, "") for part in (whole, whole[:-1]) if part}
    return sorted(found.pumps)


def make_sample(nodes: Iterable[tuple[Any, Any]], flags: int, number: int = 0) -> str:
    """Return a short text that nodes take; looks are left out."""
    return "".join(_sample(kind, value, flags, number) for kind, value in nodes)


def _sample(kind: Any, value: Any, flags: int, number: int) -> str:  # noqa: ANN401 - a node
    signs = _list_signs(kind, value, flags)
    if signs is not None:
        return signs[number % len(signs)] if signs else "\ufffd"
    if kind in REPEATS:
        least, _, body = value
        # What may be left out is there in the second sample.
        return make_sample(body, flags, number) * max(int(least), min(number, 1))
    if kind is tokens.BRANCH:
        return make_sample(value[1][number % len(value[1])], flags, number)
    return "".join(make_sample(*inner, number) for inner in _open(kind, value, flags))


def _open(kind: Any, value: Any, flags: int) -> Iterator[tuple[Nodes, int]]:  # noqa: ANN401 - a node
    """Yield what stands in a group."""
    if kind is tokens.SUBPATTERN:
        yield list(value[3]), (flags | value[1]) & ~value[2]
    elif kind is tokens.ATOMIC_GROUP:
        yield list(value), flags


def _list_signs(kind: Any, value: Any, flags: int) -> list[str] | None:  # noqa: ANN401 - a node
    accepts = read_acceptor(kind, value, flags)
    return None if accepts is None else [sign for sign in _SIGNS if accepts(sign)]


@dataclass(slots=True)
class _Finder:
    pumps: set[Pump] = field(default_factory=set)

    def walk(self, nodes: Nodes, flags: int, begin: str, behind: Nodes) -> None:
        """Find the pumps of nodes that stand between a text and other nodes."""
        for index, (kind, value) in enumerate(nodes):
            after = [*nodes[index + 1 :], *behind]
            if kind in REPEATS:
                _, most, body = value
                if most > 1:
                    self._add(list(body), flags, begin, after)
                again = [(kind, value)] if most > 1 else []
                self.walk(list(body), flags, begin, [*again, *after])
            elif kind is tokens.BRANCH:
                for branch in value[1]:
                    self.walk(list(branch), flags, begin, after)
            elif kind in _FINAL:
                self.walk(list(value[1]), flags, begin, after)
            else:
                for inner, its_flags in _open(kind, value, flags):
                    self.walk(inner, its_flags, begin, after)
            begin += _sample(kind, value, flags, 0)

    def _add(self, body: Nodes, flags: int, begin: str, after: Nodes) -> None:
        parts = {make_sample(body, flags, number) for number in range(2)}
        parts.add(make_sample(body, flags) + make_sample(after[:2], flags))
        if len(body) == 1 and (signs := _list_signs(*body[0], flags)):
            for other in _iter_singles(after, flags):
                parts |= set([sign for sign in signs if sign in other][:2])
        self.pumps |= {Pump(begin, part, end) for part in parts if part for end in _ENDS}


def _iter_singles(nodes: Nodes, flags: int, most: int = _NEXT) -> Iterator[str]:
    """Yield what each of the next nodes of one character takes."""
    for kind, value in nodes[:most]:
        signs = _list_signs(kind, value, flags)
        if signs is not None:
            yield "".join(signs)
        elif kind in REPEATS:
            yield from _iter_singles(list(value[2]), flags)
        elif kind is tokens.BRANCH:
            for branch in value[1]:
                yield from _iter_singles(list(branch), flags)
        else:
            for inner, its_flags in _open(kind, value, flags):
                yield from _iter_singles(inner, its_flags)
