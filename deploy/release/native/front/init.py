"""Headroom: how much GPU memory a training or serving job needs, before it runs.

``Headroom`` and ``AsyncHeadroom`` are clients of a server. Questions and answers have their types
in ``headroom.models``; a refusal is raised as a ``ProblemError``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.client.asynchronous import AsyncHeadroom
    from service.client.errors import (
        ConflictError,
        HeadroomError,
        InvalidRequestError,
        NotAllowedError,
        NotFoundError,
        NotOverError,
        ProblemError,
        ServerError,
        StaleError,
        TooManyRequestsError,
        UnknownAnswerError,
        UnreachableError,
    )
    from service.client.headroom import Headroom
    from service.client.measuring import Event, Job
    from service.client.retrying import Retries
    from service.client.stored import Stored, Until

__all__ = [
    "AsyncHeadroom",
    "ConflictError",
    "Event",
    "Headroom",
    "HeadroomError",
    "InvalidRequestError",
    "Job",
    "NotAllowedError",
    "NotFoundError",
    "NotOverError",
    "ProblemError",
    "Retries",
    "ServerError",
    "StaleError",
    "Stored",
    "TooManyRequestsError",
    "UnknownAnswerError",
    "UnreachableError",
    "Until",
]

_MODULES = {
    "AsyncHeadroom": "service.client.asynchronous",
    "Event": "service.client.measuring",
    "Headroom": "service.client.headroom",
    "Job": "service.client.measuring",
    "Retries": "service.client.retrying",
    "Stored": "service.client.stored",
    "Until": "service.client.stored",
}
_ERRORS = "service.client.errors"


def __getattr__(name: str) -> object:
    """Load a name when it is asked for: the command line needs none of them."""
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(_MODULES.get(name, _ERRORS)), name)
