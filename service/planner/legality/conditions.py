"""Conditions of legality rules, read from data into predicates of a case.

``{"value": PATH, "is": [...]}``, ``is_not``, ``above``, ``at_most``, ``divides``, ``multiple_of``,
``divides_or_is_multiple_of``, ``same_as``; ``{"any": [...]}`` and ``{"all": [...]}`` join them. A
PATH is a dotted name, a number, or a list of them: their product.
"""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from operator import attrgetter
from typing import Any

from service.planner.legality.facts import Case

Predicate = Callable[[Case], bool]
Getter = Callable[[Case], Any]
Path = str | int | list[str | int]
MAX_TRIED_VALUE = 1024
"""Largest value that is tried when allowed values are listed."""


def read_condition(raw: Mapping[str, Any]) -> Predicate:
    """Return the predicate of a condition.

    Raises ValueError for one without a known relation.
    """
    if "any" in raw:
        return partial(_holds_any, tuple(map(read_condition, raw["any"])))
    if "all" in raw:
        return partial(_holds_all, tuple(map(read_condition, raw["all"])))
    value = read_path(raw["value"])
    word, operand = _get_relation(raw)
    if word in _SETS:
        return partial(_SETS[word], value, frozenset(operand))
    return partial(_COMPARISONS[word], value, read_path(operand))


def read_path(path: Path) -> Getter:
    """Return the getter of a path."""
    if isinstance(path, int):
        return partial(_get_constant, path)
    if isinstance(path, list):
        return partial(_compute_product, tuple(map(read_path, path)))
    return attrgetter(path)


def collect_paths(raw: Mapping[str, Any]) -> frozenset[str]:
    """Return the dotted names in a condition."""
    parts = [*raw.get("any", ()), *raw.get("all", ())]
    paths = frozenset[str]().union(*map(collect_paths, parts))
    if parts:
        return paths
    word, operand = _get_relation(raw)
    operands = () if word in _SETS else _list_names(operand)
    return paths | frozenset(_list_names(raw["value"])) | frozenset(operands)


def list_allowed_values(raw: Mapping[str, Any], field: str, case: Case) -> tuple[object, ...]:
    """Return the values of a field that a condition allows.

    The rest of the case stays as it is; none where it lists no values.
    """
    if "any" in raw or "all" in raw:
        return ()
    word, operand = _get_relation(raw)
    names = _list_names(raw["value"])
    if word == "is" and names == (field,):
        return tuple(operand)
    if word in {"is", "is_not", "same_as"} or field not in names:
        return ()
    now = attrgetter(field)(case)
    other_factors = read_path(raw["value"])(case) // now
    test, other = _COMPARISONS[word], read_path(operand)(case)
    return tuple(
        n
        for n in range(1, MAX_TRIED_VALUE + 1)
        if test(partial(_get_constant, n * other_factors), partial(_get_constant, other), case)
    )


def _get_relation(raw: Mapping[str, Any]) -> tuple[str, Any]:
    relations = [word for word in raw if word in _SETS or word in _COMPARISONS]
    if len(relations) != 1:
        message = f"a condition has one relation, not {relations or 'none'}: {dict(raw)}"
        raise ValueError(message)
    return relations[0], raw[relations[0]]


def _list_names(path: Path) -> tuple[str, ...]:
    parts = path if isinstance(path, list) else [path]
    return tuple(part for part in parts if isinstance(part, str))


def _get_constant(value: int, _case: Case) -> int:
    return value


def _compute_product(factors: tuple[Getter, ...], case: Case) -> int:
    return prod(factor(case) for factor in factors)


def _holds_any(tests: tuple[Predicate, ...], case: Case) -> bool:
    return any(test(case) for test in tests)


def _holds_all(tests: tuple[Predicate, ...], case: Case) -> bool:
    return all(test(case) for test in tests)


def _is_in(value: Getter, values: frozenset[object], case: Case) -> bool:
    return value(case) in values


def _is_not_in(value: Getter, values: frozenset[object], case: Case) -> bool:
    return value(case) not in values


def _is_above(value: Getter, other: Getter, case: Case) -> bool:
    return bool(value(case) > other(case))


def _is_at_most(value: Getter, other: Getter, case: Case) -> bool:
    return bool(value(case) <= other(case))


def _divides(value: Getter, other: Getter, case: Case) -> bool:
    return bool(other(case) % value(case) == 0)


def _is_multiple_of(value: Getter, other: Getter, case: Case) -> bool:
    return bool(value(case) % other(case) == 0)


def _divides_or_is_multiple(value: Getter, other: Getter, case: Case) -> bool:
    left, right = value(case), other(case)
    return bool(right % left == 0 or (right and left % right == 0))


def _is_same(value: Getter, other: Getter, case: Case) -> bool:
    return bool(value(case) == other(case))


_SETS: Mapping[str, Callable[[Getter, frozenset[object], Case], bool]] = {
    "is": _is_in,
    "is_not": _is_not_in,
}
_COMPARISONS: Mapping[str, Callable[[Getter, Getter, Case], bool]] = {
    "above": _is_above,
    "at_most": _is_at_most,
    "divides": _divides,
    "multiple_of": _is_multiple_of,
    "divides_or_is_multiple_of": _divides_or_is_multiple,
    "same_as": _is_same,
}
