"""Answers as ASGI responses: encoded once, by msgspec, with no further work on the way out."""

from collections.abc import Mapping

import msgspec
from litestar.response.base import ASGIResponse

from service.errors import InvalidRequestError

JSON = "application/json"
_encoder = msgspec.json.Encoder()


def json_answer(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> ASGIResponse:
    """Return ``value`` as JSON."""
    return ASGIResponse(body=encode(value), status_code=status, media_type=JSON, headers=dict(headers or {}))


def text_answer(text: str) -> ASGIResponse:
    """Return plain text; a final newline makes it pleasant in a terminal."""
    return ASGIResponse(body=f"{text}\n".encode(), media_type="text/plain", headers={"vary": "Accept"})


def no_content() -> ASGIResponse:
    """Return an answer that says nothing more than that it is done."""
    return ASGIResponse(status_code=204)


def encode(value: object) -> bytes:
    """Encode an answer; a number that no client could read exactly is refused, not sent."""
    try:
        return _encoder.encode(value)
    except OverflowError as error:
        message = "the answer has numbers beyond 2^64 bytes; ask for less"
        raise InvalidRequestError(message) from error
