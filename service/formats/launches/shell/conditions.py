"""Tests of a shell script, as far as their words are known."""

import operator
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile

from service.formats.launches.shell.variables import (
    is_argument,
    is_unknown,
    is_variable,
    read_number,
)

_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-ge": operator.ge,
    "-lt": operator.lt,
    "-le": operator.le,
}
_CLOSING = frozenset({"]", "]]"})
_EITHER = frozenset({"||", "-o"})
_BOTH = frozenset({"&&", "-a"})
_JOINED = 3


def evaluate_test(tokens: Sequence[str]) -> bool | None:
    """Return the truth of a test, None where it is open."""
    inner = [word for word in tokens[1:] if word not in _CLOSING]
    truths = [
        _join([_evaluate(part) for part in _split(group, _BOTH)], is_either=False)
        for group in _split(inner, _EITHER)
    ]
    return _join(truths, is_either=True)


def _split(tokens: Sequence[str], signs: frozenset[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in tokens:
        if word in signs:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _join(truths: Sequence[bool | None], *, is_either: bool) -> bool | None:
    if is_either in truths:
        return is_either
    return None if None in truths else not is_either


def _evaluate(tokens: list[str]) -> bool | None:
    signs = len(list(takewhile("!".__eq__, tokens)))
    truth = _evaluate_plain(tokens[signs:])
    return truth if truth is None else truth is (signs % 2 == 0)


def _evaluate_plain(tokens: list[str]) -> bool | None:
    tokens = ["" if is_argument(word) else word for word in tokens]
    if tokens[:1] in (["-z"], ["-n"]):
        # A variable from outside is not set where the script is read.
        tokens = ["" if is_variable(word) else word for word in tokens]
    if any(is_unknown(word) for word in tokens):
        return None
    if not tokens or tokens == ["-n"]:
        return False
    if len(tokens) == 1:
        return tokens == ["-z"] or bool(tokens[0])
    if tokens[0] in {"-z", "-n"}:
        return (not tokens[1]) is (tokens[0] == "-z")
    return _compare(*tokens) if len(tokens) == _JOINED else None


def _compare(left: str, sign: str, right: str) -> bool | None:
    if sign in {"=", "=="}:
        return fnmatchcase(left, right)
    if sign == "!=":
        return not fnmatchcase(left, right)
    first, second = read_number(left), read_number(right)
    if sign not in _NUMBERS or first is None or second is None:
        return None
    return _NUMBERS[sign](first, second)
