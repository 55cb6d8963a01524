"""Files of requests, sent as text or as base64."""

import base64
import binascii
from typing import Protocol

from msgspec import UnsetType

from service.base.errors import InvalidRequestError
from service.contract.schemas.fields import get_or_none


class FileRequest(Protocol):
    """A request that has a file."""

    @property
    def content(self) -> str | UnsetType:
        """Return the file as text."""

    @property
    def content_base64(self) -> str | UnsetType:
        """Return the file's bytes as base64."""


def read_content(request: FileRequest) -> bytes:
    """Return the bytes of a request's file.

    Raises InvalidRequestError where it is sent twice, not at all, or as no base64.
    """
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
