"""Where an answer comes from: this process, or a server; only one of the two is loaded."""

from importlib import import_module
from typing import Any

from service.base.errors import InvalidRequestError, ServiceError
from service.cli.flags import in_flags
from service.estimator.values.errors import EstimatorError


def answer(question: str, document: dict[str, Any], *, server: str | None) -> dict[str, Any]:
    """Return the contract's answer to ``fit``, ``how_many`` or ``plan``; refusals speak of flags."""
    # A cold answer has no time for an HTTP client, nor a cold fit for the search; a client needs no estimator.
    source = import_module(f"service.cli.offline.{question}" if server is None else "service.cli.remote")
    try:
        found: dict[str, Any] = getattr(source, question)(document, server)
    except ServiceError as error:
        raise InvalidRequestError(in_flags(error.detail)) from None
    except EstimatorError as error:
        field = f"{error.field}: " if error.field else ""
        raise InvalidRequestError(in_flags(f"{field}{error.message}")) from None
    return found
