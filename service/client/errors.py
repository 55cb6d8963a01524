"""Errors that a call of the client may raise.

HeadroomError
 ├── ProblemError                 the server refused, in a problem document (RFC 9457)
 │    ├── InvalidRequestError     400, 413, 415, 422: the request breaks a rule
 │    ├── NotAllowedError         401, 403: no valid key, or one that may do less
 │    ├── NotFoundError           404
 │    ├── ConflictError           409: legal, but not in the present state
 │    ├── StaleError              412, 428: the resource has changed since it was read
 │    ├── TooManyRequestsError    429: past the limit of the key
 │    └── ServerError             5xx
 ├── UnreachableError             no answer came, after every retry that was safe
 ├── UnknownAnswerError           an answer that this version of the client cannot read
 └── NotOverError                 a measurement is not over in the time that was given
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from service.base.server_versions import HEADER, explain_refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class OffendingValue:
    """One value that was refused.

    Its dotted path, what is wrong and, where there is one, the nearest right word.
    """

    field: str
    message: str
    nearest: str | None = None


class HeadroomError(Exception):
    """Base of everything that the client raises by itself."""


class ProblemError(HeadroomError):
    """Refusal of the server, as a problem document.

    ``members`` holds every member of the document, and ``request_id`` is what the server's log has.
    """

    def __init__(self, status: int, members: Mapping[str, Any], *, request_id: str | None) -> None:
        """Keep the problem document."""
        self.status = status
        self.members = dict(members)
        self.type = str(members.get("type", f"http-{status}"))
        self.title = str(members.get("title", httpx.codes.get_reason_phrase(status)))
        self.detail = str(members.get("detail", f"the server answered with {status}"))
        self.errors = _read_errors(members.get("errors"))
        self.request_id = request_id
        super().__init__(self.detail)


class InvalidRequestError(ProblemError):
    """The request breaks a rule.

    ``errors`` says which values, and what would be right.
    """


class NotAllowedError(ProblemError):
    """No valid key was sent, or one that may not do this."""


class NotFoundError(ProblemError):
    """Nothing lives under this name or id."""


class ConflictError(ProblemError):
    """Legal request that the present state does not allow.

    The name is taken, the GPUs are not free, the measurement is over.
    """


class StaleError(ProblemError):
    """The resource has changed since it was read.

    Read it again and repeat the change.
    """


class TooManyRequestsError(ProblemError):
    """The limit of the key is reached.

    ``retry_after_s`` says when it is worth another try, where the server says it.
    """

    retry_after_s: float | None = None


class ServerError(ProblemError):
    """The server, or a proxy before it, could not answer."""


class UnreachableError(HeadroomError):
    """No answer came from the server.

    Whether the server did what was asked is unknown unless the message says that it was not
    reached.
    """


class UnknownAnswerError(HeadroomError):
    """The answer has a form unknown to this client version."""


class NotOverError(HeadroomError):
    """The measurement is not over in time.

    It goes on, and can be waited for again.
    """


_BY_STATUS: Mapping[int, type[ProblemError]] = {
    400: InvalidRequestError,
    401: NotAllowedError,
    403: NotAllowedError,
    404: NotFoundError,
    409: ConflictError,
    412: StaleError,
    413: InvalidRequestError,
    415: InvalidRequestError,
    422: InvalidRequestError,
    428: StaleError,
    429: TooManyRequestsError,
}


def read_problem(response: httpx.Response) -> ProblemError:
    """Return the error of a response that is no success.

    One without a problem document is made from its status.
    """
    try:
        document = response.json()
    except ValueError:
        document = None
    members = document if isinstance(document, Mapping) else {}
    if isinstance(detail := members.get("detail"), str):
        server_version = response.headers.get(HEADER)
        detail = explain_refusal(response.status_code, detail, server_version)
        members = {**members, "detail": detail}
    return make_problem(
        response.status_code,
        members,
        request_id=response.headers.get("x-request-id"),
    )


def make_problem(
    status: int, members: Mapping[str, Any], *, request_id: str | None = None
) -> ProblemError:
    """Return the error that stands for a problem document."""
    kind = _BY_STATUS.get(
        status, ServerError if status >= httpx.codes.INTERNAL_SERVER_ERROR else ProblemError
    )
    return kind(status, members, request_id=request_id)


def _read_errors(errors: object) -> tuple[OffendingValue, ...]:
    """Return the offending values of a problem document.

    ``errors`` is no word of RFC 9457, so whoever answers may mean something else.
    """
    listed = errors if isinstance(errors, list) else [] if errors is None else [errors]
    return tuple(
        _read_error(entry) if isinstance(entry, Mapping) else _wrap_text(entry) for entry in listed
    )


def _read_error(entry: Mapping[str, Any]) -> OffendingValue:
    message = entry.get("message") or entry.get("detail") or ""
    return OffendingValue(
        field=str(entry.get("field") or ""), message=str(message), nearest=entry.get("nearest")
    )


def _wrap_text(text: object) -> OffendingValue:
    return OffendingValue(field="", message=str(text))
