"""Refusals as problem documents (RFC 9457), without transport."""

from collections.abc import Mapping

import msgspec

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
    return (
        to_document(build_problem(instance, kind, status=status, detail=detail, errors=errors))
        | extra
    )


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
        type=slug, title=title, status=status, detail=detail, instance=instance, errors=errors
    )


def to_document(problem: Problem) -> dict[str, object]:
    """Return a problem as JSON values."""
    return dict(msgspec.to_builtins(problem))


def _collect_facts(error: EstimatorError) -> dict[str, object]:
    match error:
        case UnknownModelTypeError():
            return {"model_type": error.model_type, "known": error.known_types}
        case NotModelledError():
            return {"modelled": error.modelled}
        case _:
            return {}
