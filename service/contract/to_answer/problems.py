"""Refusals as problem documents (RFC 9457), without transport."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import structs

from service.base.errors import ServiceError
from service.base.typed import convert
from service.contract.schemas.operations import FieldError, Problem
from service.estimator.values.errors import (
    EstimatorError,
    InvalidConfigError,
    NotModelledError,
    UnknownModelTypeError,
)

ESTIMATOR_TYPES: Mapping[type[EstimatorError], tuple[str, str]] = {
    EstimatorError: ("invalid-request", "The request breaks a rule"),
    InvalidConfigError: (
        "invalid-model-config",
        "The model's configuration is incomplete or contradicts itself",
    ),
    UnknownModelTypeError: ("unknown-model-type", "Unknown model_type"),
    NotModelledError: ("not-modelled", "Legal, but not modelled yet"),
}
UNPROCESSABLE = 422
MAX_TEXT = 8192
"""Of a text in a problem: most of what names every model family has less."""
V = TypeVar("V")


def build_refusal(error: ServiceError | EstimatorError, *, instance: str) -> dict[str, object]:
    """Return the problem document of an expected refusal.

    ``instance`` is the path of what was refused.
    """
    if isinstance(error, ServiceError):
        extra = dict(error.extra)
        errors = tuple(convert(extra.pop("errors", ()), tuple[FieldError, ...]))
        kind, status, detail = (error.type, error.title), error.status, error.detail
    else:
        extra = _collect_facts(error)
        errors = (FieldError(field=error.field, message=error.message),) if error.field else ()
        kind = next(
            ESTIMATOR_TYPES[base] for base in type(error).__mro__ if base in ESTIMATOR_TYPES
        )
        status, detail = UNPROCESSABLE, error.message
    document = to_document(
        build_problem(instance, kind, status=status, detail=detail, errors=errors)
    )
    return document | {name: _shorten(value) for name, value in extra.items()}


def build_problem(
    instance: str,
    kind: tuple[str, str],
    *,
    status: int,
    detail: str,
    errors: tuple[FieldError, ...] = (),
) -> Problem:
    """Return a problem; its kind is a slug and a title."""
    slug, title = kind
    return Problem(
        type=slug,
        title=title,
        status=status,
        detail=_shorten(detail),
        instance=instance,
        errors=tuple(
            structs.replace(error, field=_shorten(error.field), message=_shorten(error.message))
            for error in errors
        ),
    )


def to_document(problem: Problem) -> dict[str, object]:
    """Return a problem as JSON values."""
    return dict(msgspec.to_builtins(problem))


def _shorten(value: V) -> V:
    """Return a long text without its middle."""
    if not isinstance(value, str) or len(value) <= MAX_TEXT:
        return value
    begin, end = value[: MAX_TEXT // 2], value[-MAX_TEXT // 2 :]
    return f"{begin} … ({len(value):,} characters) … {end}"  # type: ignore[return-value]  # a str is


def _collect_facts(error: EstimatorError) -> dict[str, object]:
    match error:
        case UnknownModelTypeError():
            return {"model_type": error.model_type, "known": error.known_types}
        case NotModelledError():
            return {"modelled": error.modelled}
        case _:
            return {}
