"""The few conditions that rules are made of, read from data and turned into tests of a case.

``{"value": PATH, "is": [...]}``, ``is_not``, ``above``, ``at_most``, ``divides``, ``multiple_of``,
``divides_or_is_multiple_of``, ``same_as``; ``{"any": [...]}`` and ``{"all": [...]}`` join them.
A PATH is a dotted name, a number, or a list of them: their product.
"""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from operator import attrgetter
from typing import Any

from service.planner.legality.facts import Case

Test = Callable[[Case], bool]
Get = Callable[[Case], Any]
Path = str | int | list[str | int]
MOST = 1024
"""Values that are tried when what is allowed is listed."""


def read_condition(raw: Mapping[str, Any]) -> Test:
    """Return the test that a condition stands for; raise ValueError for one that says nothing known."""
    if "any" in raw:
        return partial(_any_of, tuple(map(read_condition, raw["any"])))
    if "all" in raw:
        return partial(_all_of, tuple(map(read_condition, raw["all"])))
    value = read_path(raw["value"])
    word, operand = _relation(raw)
    if word in _SETS:
        return partial(_SETS[word], value, frozenset(operand))
    return partial(_COMPARISONS[word], value, read_path(operand))


def read_path(path: Path) -> Get:
    """Return what fetches a value from a case."""
    if isinstance(path, int):
        return partial(_constant, path)
    if isinstance(path, list):
        return partial(_product, tuple(map(read_path, path)))
    return attrgetter(path)


def paths_of(raw: Mapping[str, Any]) -> frozenset[str]:
    """Return the dotted names that a condition speaks of."""
    parts = [*raw.get("any", ()), *raw.get("all", ())]
    found = frozenset[str]().union(*map(paths_of, parts))
    if parts:
        return found
    word, operand = _relation(raw)
    operands = () if word in _SETS else _names(operand)
    return found | frozenset(_names(raw["value"])) | frozenset(operands)


def allowed_by(raw: Mapping[str, Any], field: str, case: Case) -> tuple[object, ...]:
    """Return the values of a field that a condition allows, the rest of the case as it is; none where it lists no values."""
    if "any" in raw or "all" in raw:
        return ()
    word, operand = _relation(raw)
    names = _names(raw["value"])
    if word == "is" and names == (field,):
        return tuple(operand)
    if word in {"is", "is_not", "same_as"} or field not in names:
        return ()
    now = attrgetter(field)(case)
    rest = read_path(raw["value"])(case) // now
    test, other = _COMPARISONS[word], read_path(operand)(case)
    return tuple(n for n in range(1, MOST + 1) if test(partial(_constant, n * rest), partial(_constant, other), case))


def _relation(raw: Mapping[str, Any]) -> tuple[str, Any]:
    words = [word for word in raw if word in _SETS or word in _COMPARISONS]
    if len(words) != 1:
        message = f"a condition has one relation, not {words or 'none'}: {dict(raw)}"
        raise ValueError(message)
    return words[0], raw[words[0]]


def _names(path: Path) -> tuple[str, ...]:
    parts = path if isinstance(path, list) else [path]
    return tuple(part for part in parts if isinstance(part, str))


def _constant(value: int, _case: Case) -> int:
    return value


def _product(factors: tuple[Get, ...], case: Case) -> int:
    return prod(factor(case) for factor in factors)


def _any_of(tests: tuple[Test, ...], case: Case) -> bool:
    return any(test(case) for test in tests)


def _all_of(tests: tuple[Test, ...], case: Case) -> bool:
    return all(test(case) for test in tests)


def _is(value: Get, words: frozenset[object], case: Case) -> bool:
    return value(case) in words


def _is_not(value: Get, words: frozenset[object], case: Case) -> bool:
    return value(case) not in words


def _above(value: Get, other: Get, case: Case) -> bool:
    return bool(value(case) > other(case))


def _at_most(value: Get, other: Get, case: Case) -> bool:
    return bool(value(case) <= other(case))


def _divides(value: Get, other: Get, case: Case) -> bool:
    return bool(other(case) % value(case) == 0)


def _multiple_of(value: Get, other: Get, case: Case) -> bool:
    return bool(value(case) % other(case) == 0)


def _divides_or_is_multiple_of(value: Get, other: Get, case: Case) -> bool:
    ours, theirs = value(case), other(case)
    return bool(theirs % ours == 0 or (theirs and ours % theirs == 0))


def _same_as(value: Get, other: Get, case: Case) -> bool:
    return bool(value(case) == other(case))


_SETS: Mapping[str, Callable[[Get, frozenset[object], Case], bool]] = {"is": _is, "is_not": _is_not}
_COMPARISONS: Mapping[str, Callable[[Get, Get, Case], bool]] = {
    "above": _above,
    "at_most": _at_most,
    "divides": _divides,
    "multiple_of": _multiple_of,
    "divides_or_is_multiple_of": _divides_or_is_multiple_of,
    "same_as": _same_as,
}
