"""Defaults of a request, and the lines that name them."""

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from service.estimator.values.memo import keep_latest


def apply_defaults(
    request: object, defaults: Mapping[str, Any], prefix: str
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of ``defaults``, and a line for each absent one."""
    values: dict[str, Any] = {}
    assumptions: list[str] = []
    for name, default in defaults.items():
        value = getattr(request, name)
        if value is UNSET:
            value = default
            assumptions.append(_format_assumption(prefix, name, default))
        values[name] = value
    return values, assumptions


@keep_latest(1024)
def _format_assumption(prefix: str, name: str, default: Hashable) -> str:
    return f"{prefix}.{name} = {'none' if default is None else default}"


def copy_set_fields(request: object, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the named fields that the request has.

    Their absence needs no line among the assumptions.
    """
    return {
        name: value
        for name, value in zip(names, _make_getter(names)(request), strict=True)
        if value is not UNSET
    }


@cache
def _make_getter(names: tuple[str, ...]) -> Callable[[object], tuple[Any, ...]]:
    """Return a reader of several fields in one call."""
    read = attrgetter(*names)
    return read if len(names) > 1 else lambda request: (read(request),)


def list_set_fields(request: Struct | UnsetType) -> frozenset[str]:
    """Return the names of the fields that a request has."""
    if isinstance(request, UnsetType):
        return frozenset()
    return frozenset(copy_set_fields(request, request.__struct_fields__))
