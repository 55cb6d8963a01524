"""Responses as ASGI applications, encoded once by msgspec."""

from collections.abc import Mapping

from litestar.types import Receive, Scope, Send

from service.contract.encoding import encode

Header = tuple[bytes, bytes]

_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    # Charts are saved as pictures, and the small icons of a page are written into it.
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
)
PAGE_HEADERS = {
    "content-security-policy": "; ".join(_POLICY),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}
"""Headers of every page, and of the files that it loads: nothing comes from another host, nothing
runs inline.
"""
_JSON: Header = (b"content-type", b"application/json")
_TEXT: Header = (b"content-type", b"text/plain; charset=utf-8")


class BytesResponse:
    """Response whose body is complete.

    The framework's own response costs more than the rest of a request.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(self, body: bytes, *, status: int, headers: list[Header]) -> None:
        """Store status, headers and body as they will be sent."""
        self.body = body
        self.status = status
        self.headers = headers

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def json_response(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> BytesResponse:
    """Return ``value`` as JSON."""
    return _build_response(encode(value), _JSON, status=status, headers=headers)


def text_response(
    text: str, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> BytesResponse:
    """Return plain text; a final newline makes it pleasant in a terminal."""
    lines = {"vary": "Accept", "x-content-type-options": "nosniff", **(headers or {})}
    return _build_response(f"{text}\n".encode(), _TEXT, status=status, headers=lines)


def bytes_response(
    body: bytes, media_type: str, headers: Mapping[str, str] | None = None
) -> BytesResponse:
    """Return bytes that are encoded already."""
    return _build_response(body, (b"content-type", media_type.encode()), headers=headers)


def tagged_response(body: bytes, etag: str) -> BytesResponse:
    """Return encoded JSON with its entity tag."""
    length, tag = b"%d" % len(body), b'"%s"' % etag.encode()
    lines = [_JSON, (b"content-length", length), (b"etag", tag)]
    return BytesResponse(body, status=200, headers=lines)


def no_content() -> BytesResponse:
    """Return 204 without a body."""
    return BytesResponse(b"", status=204, headers=[])


def not_modified(headers: Mapping[str, str]) -> BytesResponse:
    """Return 304 with the headers that name the version."""
    return BytesResponse(b"", status=304, headers=_encode_headers(headers))


def _build_response(
    body: bytes, media_type: Header, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> BytesResponse:
    lines = [media_type, (b"content-length", b"%d" % len(body))]
    if headers:
        lines += _encode_headers(headers)
    return BytesResponse(body, status=status, headers=lines)


def _encode_headers(headers: Mapping[str, str]) -> list[Header]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
