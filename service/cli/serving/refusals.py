"""Refusals of connections, before there is a request that anything could answer."""

from enum import Enum
from http import HTTPStatus

import msgspec

from service.contract.to_answer.problems import build_problem, to_document


class Refusal(Enum):
    """Why a connection is closed: a status and what would be right."""

    MALFORMED = (
        HTTPStatus.BAD_REQUEST,
        (
            "this is no HTTP/1.1 request: each line ends with CR LF, one length says where a body "
            "ends, and no header is folded (RFC 9112)"
        ),
    )
    BAD_HOST = HTTPStatus.BAD_REQUEST, "a request has one Host header (RFC 9112, sec. 3.2)"
    LATE = (
        HTTPStatus.REQUEST_TIMEOUT,
        (
            "the request did not come in time; HEADROOM_HEADER_TIMEOUT_S and "
            "HEADROOM_BODY_TIMEOUT_S say how long a server waits"
        ),
    )
    HEAD_TOO_LARGE = (
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        ("a request has at most 100 headers, and 65,536 bytes of address and headers together"),
    )
    CROWDED = (
        HTTPStatus.SERVICE_UNAVAILABLE,
        (
            "this process has as many connections as it may have (HEADROOM_MAX_CONNECTIONS), and "
            "each is being answered; try again"
        ),
    )

    def make_answer(self) -> bytes:
        """Return a whole answer, after which its connection is closed."""
        status, detail = self.value
        kind = (f"http-{status.value}", "The request could not be served")
        body = msgspec.json.encode(
            to_document(build_problem("", kind, status=status.value, detail=detail))
        )
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\n"
            "content-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\n"
            f"{'retry-after: 1' if self is Refusal.CROWDED else 'cache-control: no-store'}\r\n"
            "connection: close\r\n\r\n"
        )
        return head.encode() + body
