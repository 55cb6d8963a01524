"""Numbers that JSON can hold."""

from math import isfinite

from service.base.errors import InvalidRequestError


def require_finite(value: float) -> float:
    """Refuse a number that JSON cannot hold.

    msgspec would write null in its place.
    """
    if not isfinite(value):
        message = "the answer is not a finite number; ask for less"
        raise InvalidRequestError(message)
    return value


def require_finite_or_none(value: float | None) -> float | None:
    """Refuse a number that JSON cannot hold, if there is one."""
    return None if value is None else require_finite(value)
