"""Matcher of regular expressions that counts its steps.

It goes back over a text as ``re`` does, node by node of the tree that ``re`` itself parses, so that
what a pattern costs is a number and no time. ``re`` has shortcuts that save it steps, and none that
costs it more.
"""

import re
from collections.abc import Callable
from re import _constants as tokens  # type: ignore[attr-defined]  # the parser of ``re`` itself
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Then = Callable[[int], bool]
Match = Callable[[int, Then], bool]
Accepts = Callable[[str], bool]
Nodes = list[tuple[Any, Any]]

REPEATS = frozenset((tokens.MAX_REPEAT, tokens.MIN_REPEAT, tokens.POSSESSIVE_REPEAT))
_CATEGORIES: dict[Any, Accepts] = {
    tokens.CATEGORY_DIGIT: str.isdecimal,
    tokens.CATEGORY_SPACE: str.isspace,
    tokens.CATEGORY_WORD: lambda sign: sign.isalnum() or sign == "_",
}
_OTHERS = {
    tokens.CATEGORY_NOT_DIGIT: tokens.CATEGORY_DIGIT,
    tokens.CATEGORY_NOT_SPACE: tokens.CATEGORY_SPACE,
    tokens.CATEGORY_NOT_WORD: tokens.CATEGORY_WORD,
}
_LAST_ASCII = 127


class TooManyStepsError(Exception):
    """More steps than were allowed."""


def read_acceptor(kind: Any, value: Any, flags: int) -> Accepts | None:  # noqa: ANN401 - a node
    """Return which characters a node of one character takes, None for any other node."""
    if kind is tokens.ANY:
        return lambda sign: bool(flags & re.DOTALL) or sign != "\n"
    if kind is tokens.LITERAL:
        items, is_negated = [(kind, value)], False
    elif kind is tokens.NOT_LITERAL:
        items, is_negated = [(tokens.LITERAL, value)], True
    elif kind is tokens.IN:
        is_negated = value[0][0] is tokens.NEGATE
        items = value[is_negated:]
    else:
        return None
    known: dict[str, bool] = {}

    def accepts(sign: str) -> bool:
        if sign not in known:
            signs = {sign, sign.lower(), sign.upper()} if flags & re.IGNORECASE else {sign}
            taken = any(_is_in(item, each, flags) for item in items for each in signs)
            known[sign] = taken is not is_negated
        return known[sign]

    return accepts


def _is_in(item: tuple[Any, Any], sign: str, flags: int) -> bool:
    kind, value = item
    if kind is tokens.LITERAL:
        return ord(sign[0]) == int(value)
    if kind is tokens.RANGE:
        return bool(value[0] <= ord(sign[0]) <= value[1])
    if value in _OTHERS:
        return not _is_in((kind, _OTHERS[value]), sign, flags)
    return not (flags & re.ASCII and ord(sign[0]) > _LAST_ASCII) and _CATEGORIES[value](sign)


class SteppingMatcher:
    """Matcher of one pattern."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        """Parse a pattern; bytes are read as Latin-1."""
        text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
        flags = flags & ~re.UNICODE if flags & re.ASCII or isinstance(pattern, bytes) else flags
        self.tree = parser.parse(text, flags)
        self.flags = int(self.tree.state.flags) | (re.ASCII if isinstance(pattern, bytes) else 0)
        self._match = self._join(list(self.tree), self.flags)
        self._text, self._steps, self._most = "", 0, 0
        self._groups: dict[int, tuple[int, int]] = {}

    def count(self, text: str, *, mode: str, most: int) -> int:
        """Return the steps of ``match``, ``fullmatch``, or of a search for all, up to ``most``."""
        self._text, self._steps, self._most = text, 0, most
        try:
            if mode in {"match", "fullmatch"}:
                self.find_end(text, 0, is_full=mode == "fullmatch")
            else:
                self.list_matches(text)
        except TooManyStepsError:
            return most
        return self._steps

    def list_matches(self, text: str) -> list[tuple[int, int]]:
        """Return all matches, as ``finditer`` finds them."""
        found, start = [], 0
        while start <= len(text):
            self._step()
            end = self.find_end(text, start)
            if end is not None:
                found.append((start, end))
            start = end if end is not None and end > start else start + 1
        return found

    def find_end(self, text: str, start: int, *, is_full: bool = False) -> int | None:
        """Return where a match from ``start`` ends."""
        self._text, self._groups = text, {}
        self._most = self._most or 10**9
        ends: list[int] = []

        def finish(end: int) -> bool:
            if is_full and end < len(text):
                return False
            ends.append(end)
            return True

        return ends[0] if self._match(start, finish) else None

    def _step(self) -> None:
        self._steps += 1
        if self._most and self._steps > self._most:
            raise TooManyStepsError

    def _join(self, nodes: Nodes, flags: int) -> Match:
        match: Match = lambda start, then: then(start)  # noqa: E731 - the end of a chain
        for kind, value in reversed(nodes):
            match = _chain(self._read(kind, value, flags), match)
        return match

    def _read(self, kind: Any, value: Any, flags: int) -> Match:  # noqa: ANN401 - a node
        accepts = read_acceptor(kind, value, flags)
        if accepts is not None:
            return self._make_single(accepts)
        if kind in REPEATS:
            return self._make_repeat(kind, value, flags)
        makers: dict[Any, Callable[[Any, int], Match]] = {
            tokens.BRANCH: self._make_branch,
            tokens.SUBPATTERN: self._make_group,
            tokens.ATOMIC_GROUP: self._make_atomic,
            tokens.ASSERT: self._make_look,
            tokens.ASSERT_NOT: lambda value, flags: self._make_look(value, flags, is_negated=True),
            tokens.AT: self._make_place,
        }
        return makers[kind](value, flags)

    def _make_single(self, accepts: Accepts) -> Match:
        def match(start: int, then: Then) -> bool:
            self._step()
            return self._takes(accepts, start) and then(start + 1)

        return match

    def _takes(self, accepts: Accepts, start: int) -> bool:
        return start < len(self._text) and accepts(self._text[start])

    def _make_repeat(self, kind: Any, value: Any, flags: int) -> Match:  # noqa: ANN401 - a node
        least, most = int(value[0]), int(value[1])
        body: Nodes = list(value[2])
        if kind is tokens.POSSESSIVE_REPEAT:
            repeat = self._make_repeat(tokens.MAX_REPEAT, value, flags)
            return self._make_final(repeat)
        accepts = read_acceptor(*body[0], flags) if len(body) == 1 else None
        if accepts is not None and kind is tokens.MAX_REPEAT:
            return self._make_run(accepts, least, most)
        inner, is_greedy = self._join(body, flags), kind is tokens.MAX_REPEAT

        def match(start: int, then: Then, number: int = 0, last: int = -1) -> bool:
            self._step()

            def go_on() -> bool:
                if number >= most or (number >= least and start == last):
                    return False
                return inner(start, lambda end: match(end, then, number + 1, start))

            if number < least:
                return go_on()
            return (go_on() or then(start)) if is_greedy else (then(start) or go_on())

        return match

    def _make_run(self, accepts: Accepts, least: int, most: int) -> Match:
        def match(start: int, then: Then) -> bool:
            end = start
            while end - start < most and self._takes(accepts, end):
                self._step()
                end += 1
            while end - start >= least:
                self._step()
                if then(end):
                    return True
                end -= 1
            return False

        return match

    def _make_branch(self, value: Any, flags: int) -> Match:  # noqa: ANN401 - a node
        branches = [self._join(list(nodes), flags) for nodes in value[1]]

        def match(start: int, then: Then) -> bool:
            for branch in branches:
                self._step()
                if branch(start, then):
                    return True
            return False

        return match

    def _make_group(self, value: Any, flags: int) -> Match:  # noqa: ANN401 - a node
        _, added, removed, nodes = value
        return self._join(list(nodes), (flags | added) & ~removed)

    def _make_atomic(self, value: Any, flags: int) -> Match:  # noqa: ANN401 - a node
        return self._make_final(self._join(list(value), flags))

    def _make_final(self, inner: Match) -> Match:
        """Return a match that is not gone back into."""

        def match(start: int, then: Then) -> bool:
            ends: list[int] = []

            def finish(end: int) -> bool:
                ends.append(end)
                return True

            self._step()
            return inner(start, finish) and then(ends[0])

        return match

    def _make_look(self, value: Any, flags: int, *, is_negated: bool = False) -> Match:  # noqa: ANN401 - a node
        direction, nodes = value
        inner, width = self._join(list(nodes), flags), int(nodes.getwidth()[0])
        is_ahead = direction > 0

        def match(start: int, then: Then) -> bool:
            self._step()
            begin = start if is_ahead else start - width
            is_there = begin >= 0 and inner(begin, lambda end: is_ahead or end == start)
            return is_there is not is_negated and then(start)

        return match

    def _make_place(self, value: Any, flags: int) -> Match:  # noqa: ANN401 - a node
        is_in_lines = bool(flags & re.MULTILINE)

        def match(start: int, then: Then) -> bool:
            self._step()
            return self._is_at(value, start, is_in_lines=is_in_lines) and then(start)

        return match

    def _is_at(self, place: Any, start: int, *, is_in_lines: bool) -> bool:  # noqa: ANN401 - a node
        text, size = self._text, len(self._text)
        if place in {tokens.AT_BOUNDARY, tokens.AT_NON_BOUNDARY}:
            is_word = _CATEGORIES[tokens.CATEGORY_WORD]
            before = start > 0 and is_word(text[start - 1])
            behind = start < size and is_word(text[start])
            return (before != behind) is (place is tokens.AT_BOUNDARY)
        if place in {tokens.AT_BEGINNING, tokens.AT_BEGINNING_STRING}:
            is_line = is_in_lines and place is tokens.AT_BEGINNING
            return start == 0 or (is_line and text[start - 1] == "\n")
        if start == size or place is tokens.AT_END_STRING:
            return start == size
        return text[start] == "\n" and (is_in_lines or start == size - 1)


def _chain(first: Match, second: Match) -> Match:
    return lambda start, then: first(start, lambda end: second(end, then))
