"""Conditions of rules: relations between fields, and named predicates.

A condition knows the names of the fields that it reads, so that a search, or who asks many
questions about one model, can settle it as soon as these are known.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import prod
from operator import attrgetter
from typing import Any, Generic, TypeVar

from service.estimator.rules.grammar.facts import Case

T = TypeVar("T")
B = TypeVar("B", bool, bool | None)
Predicate = Callable[[Case], bool]
Getter = Callable[[Case], Any]


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """A field of a case, by its dotted name.

    ``T`` is the type of its values.
    """

    path: str


Number = Field[int] | Field[int | None] | int | tuple[Field[int] | Field[int | None] | int, ...]
"""A field, a number, or the product of several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A test of a case.

    ``field`` is what it is about first. ``values`` are all that it allows of the one field that it
    reads. ``parts`` are joined conditions, and one of them that ``decides`` decides for all.
    """

    holds: Predicate
    paths: frozenset[str]
    field: str = ""
    values: tuple[object, ...] | None = None
    parts: "tuple[Condition, ...]" = ()
    decides: bool = False


def is_in(field: Field[T], *values: T) -> Condition:
    """Return the condition that a field has one of some values."""
    test = partial(_is_in, attrgetter(field.path), frozenset[object](values))
    return Condition(holds=test, paths=frozenset({field.path}), field=field.path, values=values)


def is_not_in(field: Field[T], *values: T) -> Condition:
    """Return the condition that a field has none of some values."""
    test = partial(_is_not_in, attrgetter(field.path), frozenset[object](values))
    return Condition(holds=test, paths=frozenset({field.path}), field=field.path)


def is_true(field: Field[B]) -> Condition:
    """Return the condition that something is so."""
    return is_in(field, *(True,))


def is_false(field: Field[B]) -> Condition:
    """Return the condition that something is not so."""
    return is_in(field, *(False,))


def is_absent(field: Field[Any]) -> Condition:
    """Return the condition that a field is left out."""
    return is_in(field, None)


def is_given(field: Field[Any]) -> Condition:
    """Return the condition that a field is not left out."""
    return is_not_in(field, None)


def is_above(left: Number, right: Number) -> Condition:
    """Return the condition that one number is greater than another."""
    return _compare(_is_above, left, right)


def is_at_most(left: Number, right: Number) -> Condition:
    """Return the condition that one number is not greater than another."""
    return _compare(_is_at_most, left, right)


def divides(left: Number, right: Number) -> Condition:
    """Return the condition that one number divides another."""
    return _compare(_divides, left, right)


def is_multiple_of(left: Number, right: Number) -> Condition:
    """Return the condition that one number is a multiple of another."""
    return _compare(_is_multiple, left, right)


def divides_or_is_multiple_of(left: Number, right: Number) -> Condition:
    """Return the condition that one of two numbers divides the other."""
    return _compare(_divides_or_is_multiple, left, right)


def is_same(left: Number | Field[Any], right: Number | Field[Any]) -> Condition:
    """Return the condition that two fields are equal."""
    return _compare(_is_same, left, right)


def any_of(*parts: Condition) -> Condition:
    """Return the condition that one of some holds."""
    return _join(_holds_any, parts, decides=True)


def all_of(*parts: Condition) -> Condition:
    """Return the condition that all of some hold."""
    return _join(_holds_all, parts, decides=False)


def satisfies(test: Predicate, *fields: Field[Any]) -> Condition:
    """Return the condition of a predicate.

    It reads the model and ``fields``.
    """
    paths = frozenset(field.path for field in fields)
    return Condition(holds=test, paths=paths, field=fields[0].path if fields else "")


def settle(condition: Condition, case: Case, open_paths: frozenset[str]) -> bool | None:
    """Return the truth of a condition.

    None where fields that are open decide.
    """
    if not condition.parts:
        return None if condition.paths & open_paths else condition.holds(case)
    outcome: bool | None = not condition.decides
    for part in condition.parts:
        settled = settle(part, case, open_paths)
        if settled is condition.decides:
            return settled
        outcome = None if settled is None else outcome
    return outcome


def _compare(
    relation: Callable[[Getter, Getter, Case], bool],
    left: Number | Field[Any],
    right: Number | Field[Any],
) -> Condition:
    names = (*_iter_paths(left), *_iter_paths(right))
    test = partial(relation, _make_getter(left), _make_getter(right))
    return Condition(holds=test, paths=frozenset(names), field=names[0])


def _join(
    holds: Callable[[tuple[Predicate, ...], Case], bool],
    parts: tuple[Condition, ...],
    *,
    decides: bool,
) -> Condition:
    return Condition(
        holds=partial(holds, tuple(part.holds for part in parts)),
        paths=frozenset[str]().union(*(part.paths for part in parts)),
        field=parts[0].field,
        parts=parts,
        decides=decides,
    )


def _iter_paths(number: Number | Field[Any]) -> Iterable[str]:
    parts = number if isinstance(number, tuple) else (number,)
    return [part.path for part in parts if isinstance(part, Field)]


def _make_getter(number: Number | Field[Any]) -> Getter:
    if isinstance(number, tuple):
        return partial(_compute_product, tuple(_make_getter(part) for part in number))
    return attrgetter(number.path) if isinstance(number, Field) else partial(_get_constant, number)


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


def _is_multiple(value: Getter, other: Getter, case: Case) -> bool:
    return bool(value(case) % other(case) == 0)


def _divides_or_is_multiple(value: Getter, other: Getter, case: Case) -> bool:
    left, right = value(case), other(case)
    return bool(right % left == 0 or (right and left % right == 0))


def _is_same(value: Getter, other: Getter, case: Case) -> bool:
    return bool(value(case) == other(case))
