"""Answers as ASGI applications: encoded once, by msgspec, with no further work on the way out."""

from collections.abc import Mapping

import msgspec
from litestar.types import Receive, Scope, Send

from service.base.errors import InvalidRequestError

Header = tuple[bytes, bytes]

_JSON: Header = (b"content-type", b"application/json")
_TEXT: Header = (b"content-type", b"text/plain; charset=utf-8")
_encoder = msgspec.json.Encoder()


class Whole:
    """An answer that is there as a whole; the framework's own response costs more than the rest of a request."""

    __slots__ = ("_body", "_headers", "_status")

    def __init__(self, body: bytes, *, status: int, headers: list[Header]) -> None:
        """Answer with ``body``; the length is added here."""
        self._body = body
        self._status = status
        self._headers = headers

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self._status, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})


def json_answer(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Whole:
    """Return ``value`` as JSON."""
    return _whole(encode(value), _JSON, status=status, headers=headers)


def text_answer(text: str) -> Whole:
    """Return plain text; a final newline makes it pleasant in a terminal."""
    return _whole(f"{text}\n".encode(), _TEXT, headers={"vary": "Accept"})


def bytes_answer(body: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> Whole:
    """Return bytes that are encoded already."""
    return _whole(body, (b"content-type", media_type.encode()), headers=headers)


def no_content() -> Whole:
    """Return an answer that says nothing more than that it is done."""
    return Whole(b"", status=204, headers=[])


def not_modified(headers: Mapping[str, str]) -> Whole:
    """Return an answer to somebody who has it already, with the headers that name its version."""
    return Whole(b"", status=304, headers=_lines(headers))


def encode(value: object) -> bytes:
    """Encode an answer; a number that no client could read exactly is refused, not sent."""
    try:
        return _encoder.encode(value)
    except OverflowError as error:
        message = "the answer has numbers beyond 2^64 bytes; ask for less"
        raise InvalidRequestError(message) from error


def _whole(body: bytes, media_type: Header, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Whole:
    lines = [media_type, (b"content-length", b"%d" % len(body))]
    if headers:
        lines += _lines(headers)
    return Whole(body, status=status, headers=lines)


def _lines(headers: Mapping[str, str]) -> list[Header]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
