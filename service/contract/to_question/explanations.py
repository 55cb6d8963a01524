"""Requests to explain a failure as bytes and a question."""

import base64
import binascii
from collections.abc import Callable

from msgspec import UnsetType

from service.base.errors import InvalidRequestError
from service.contract.schemas.explain.request import ExplainRequest
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.fit import ModelReference
from service.contract.to_question.fits import read_fit
from service.contract.to_question.models import ResolvedModel, prefix_error_field
from service.usecases.questions.fit import FitQuestion


def read_content(request: ExplainRequest) -> bytes:
    """Return the file of a request, which has it once."""
    text, encoded = get_or_none(request.content), get_or_none(request.content_base64)
    if (text is None) == (encoded is None):
        message = "give the file once: content for text, or content_base64"
        raise InvalidRequestError(message, errors=[{"field": "content", "message": message}])
    if encoded is None:
        return (text or "").encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        message = f"content_base64 is no base64: {error}"
        raise InvalidRequestError(
            message, errors=[{"field": "content_base64", "message": message}]
        ) from None


def read_explained_question(
    request: ExplainRequest, resolve: Callable[[ModelReference], ResolvedModel]
) -> FitQuestion | None:
    """Return what is said to have run, ``None`` where nobody says it."""
    if isinstance(request.question, UnsetType):
        return None
    with prefix_error_field("question"):
        return read_fit(request.question, resolve(request.question.model))
