"""Tests of a shell script, as far as their words are known."""

import operator
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from service.formats.launches.shell.variables import is_argument, is_unknown, is_variable

_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-ge": operator.ge,
    "-lt": operator.lt,
    "-le": operator.le,
}
_CLOSING = frozenset({"]", "]]"})
_JOINED = 3


def evaluate_test(tokens: Sequence[str]) -> bool | None:
    """Return the truth of a test, None where it is open."""
    inner = [word for word in tokens[1:] if word not in _CLOSING]
    for sign, is_either in (("||", True), ("-o", True), ("&&", False), ("-a", False)):
        if sign in inner:
            index = inner.index(sign)
            first = _evaluate(inner[:index])
            second = evaluate_test(["[", *inner[index + 1 :]])
            return _join((first, second), is_either=is_either)
    return _evaluate(inner)


def _join(truths: Sequence[bool | None], *, is_either: bool) -> bool | None:
    if is_either in truths:
        return is_either
    return None if None in truths else not is_either


def _evaluate(tokens: list[str]) -> bool | None:
    if tokens[:1] == ["!"]:
        truth = _evaluate(tokens[1:])
        return None if truth is None else not truth
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
    if sign in _NUMBERS and left.isdecimal() and right.isdecimal():
        return _NUMBERS[sign](int(left), int(right))
    return None
