"""Source of an answer: this process, or a server.

Only one of the two is loaded.
"""

from importlib import import_module
from typing import Any

from service.base.errors import InvalidRequestError, ServiceError
from service.cli.flags import translate_to_flags
from service.estimator.values.errors import EstimatorError


def answer_question(
    question: str, document: dict[str, Any], *, server: str | None
) -> dict[str, Any]:
    """Return the contract's answer to a question.

    ``question`` is ``fit``, ``how_many``, ``plan`` or ``ceiling``. Refusals name flags.
    """
    # A cold answer has no time for an HTTP client, nor a cold fit for the search; a client needs no
    # estimator.
    source = import_module(
        f"service.cli.offline.{question}" if server is None else "service.cli.remote"
    )
    try:
        result: dict[str, Any] = getattr(source, question)(document, server)
    except ServiceError as error:
        raise InvalidRequestError(translate_to_flags(error.detail)) from None
    except EstimatorError as error:
        field = f"{error.field}: " if error.field else ""
        raise InvalidRequestError(translate_to_flags(f"{field}{error.message}")) from None
    return result
