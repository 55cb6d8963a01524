"""The tree of errors is drawn, and the drawing is true."""

import re

from service.base import errors, startup_errors
from service.base.errors import ServiceError

_MODULES = {errors.__name__, startup_errors.__name__}


def descendants(kind: type[ServiceError]) -> list[type[ServiceError]]:
    """Return every class below ``kind`` in these modules, depth first."""
    children = [child for child in kind.__subclasses__() if child.__module__ in _MODULES]
    return [found for child in children for found in (child, *descendants(child))]


def depth(kind: type[ServiceError]) -> int:
    """Return how far below ServiceError a class stands."""
    return kind.__mro__.index(ServiceError)


def test_the_drawing_names_every_error_at_its_place() -> None:
    """Somebody who reads the docstring knows what can be caught, and where it hangs."""
    drawn = [
        (line.index("── ") // 5 + 1, name)
        for line in (errors.__doc__ or "").splitlines()
        if "── " in line
        for name in re.findall(r"\w+Error\b", line)
    ]

    assert sorted(drawn) == sorted(
        (depth(kind), kind.__name__) for kind in descendants(ServiceError)
    )


def test_the_drawing_names_the_status() -> None:
    """A status stands beside the class that sets it, and is the one that is sent."""
    drawn = dict(re.findall(r"── (\w+Error) (\d{3})", errors.__doc__ or ""))

    assert drawn == {
        kind.__name__: str(kind.status)
        for kind in descendants(ServiceError)
        if "status" in vars(kind)
    }


def test_types_are_slugs_and_tell_errors_apart() -> None:
    """Clients match on ``type``: each error has its own, and no typing accident in it."""
    types = [ServiceError.type, *(kind.type for kind in descendants(ServiceError))]

    assert len(set(types)) == len(types)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", slug) for slug in types)


def test_facts_ride_along() -> None:
    """What a program needs is kept apart from what a person reads."""
    error = errors.ModelNotFoundError("there is no model 'x'", name="x")

    assert (str(error), error.detail, error.extra, error.status) == (
        "there is no model 'x'",
        "there is no model 'x'",
        {"name": "x"},
        404,
    )
