"""Connection pool to one server, with retries.

Calls are sent, repeated where that is safe, and read; refusals are raised.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import httpx

from service.base.server_versions import HEADER, explain_versions
from service.client.errors import (
    TooManyRequestsError,
    UnknownAnswerError,
    UnreachableError,
    read_problem,
)
from service.client.generated.types import Call
from service.client.naming import check_path
from service.client.retrying import Repeat, Retries, retry_after_s

CONNECT_TIMEOUT_S = 5.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Received(Generic[T]):
    """Value of an answer, with its ETag and Location."""

    value: T
    etag: str | None
    location: str | None


class Transport:
    """Sends calls to one server with one key."""

    def __init__(self, client: httpx.Client, retries: Retries) -> None:
        """Send through ``client``.

        It knows the address, the key and the time-outs.
        """
        self._client = client
        self._retries = retries

    def send(self, call: Call[T], repeat: Repeat) -> Received[T]:
        """Send a call and return its answer.

        Raises ProblemError for a refusal, UnreachableError where no answer came, and ValueError for
        what cannot be sent.
        """
        check_path(call.path)
        attempt = 0
        while True:
            attempt += 1
            wait_s = self._retries.wait_s(attempt)
            try:
                with translate_errors():
                    response = self._send_once(call)
            except httpx.TransportError as fault:
                if wait_s is None or not repeat.after_fault(fault):
                    raise build_unreachable(str(self._client.base_url), fault) from fault
            else:
                if response.is_success:
                    return read_received(call, response)
                after_s = retry_after_s(response)
                wait_s = self._retries.wait_s(attempt, after_s)
                if wait_s is None or not repeat.after_status(response.status_code):
                    raise build_refusal(response, after_s)
            self._retries.pause(wait_s)

    @contextmanager
    def stream(
        self, path: str, *, last_event_id: str, silence_s: float
    ) -> Iterator[httpx.Response]:
        """Open a stream of events after ``last_event_id``.

        One that is silent for ``silence_s`` raises httpx.ReadTimeout.
        """
        headers = {"accept": "text/event-stream"} | (
            {"last-event-id": last_event_id} if last_event_id else {}
        )
        timeout = httpx.Timeout(silence_s, connect=CONNECT_TIMEOUT_S)
        with (
            translate_errors(),
            self._client.stream("GET", path, headers=headers, timeout=timeout) as response,
        ):
            _require_success(response)
            yield response

    def download(self, path: str) -> Iterator[bytes]:
        """Yield the bytes under a path piece by piece.

        Raises ProblemError, and UnreachableError where it breaks off.
        """
        check_path(path)
        try:
            with (
                translate_errors(),
                self._client.stream(
                    "GET", path, headers={"accept": "application/octet-stream"}
                ) as response,
            ):
                _require_success(response)
                yield from response.iter_bytes()
        except (httpx.TransportError, httpx.StreamError) as fault:
            message = (
                f"{path} of the server at {self._client.base_url} broke off: "
                f"{fault or type(fault).__name__}"
            )
            raise UnreachableError(message) from fault

    def _send_once(self, call: Call[T]) -> httpx.Response:
        return self._client.request(
            call.method,
            call.path,
            params=dict(call.params),
            headers=dict(call.headers),
            json=call.body,
        )

    def close(self) -> None:
        """Close every connection."""
        self._client.close()


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate errors that another try does not mend.

    A request, or an answer, that is no HTTP; a network that fails is left to the caller.
    """
    try:
        yield
    except (httpx.LocalProtocolError, httpx.InvalidURL, UnicodeEncodeError) as fault:
        message = f"no request can carry that: {fault}"
        raise ValueError(message) from fault
    except (httpx.DecodingError, httpx.TooManyRedirects) as fault:
        message = f"an answer came that cannot be read: {fault}"
        raise UnknownAnswerError(message) from fault


def read_received(call: Call[T], response: httpx.Response) -> Received[T]:
    """Return the value of an answer.

    Raises UnknownAnswerError for one of another form.
    """
    try:
        value = call.read(response)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        message = (
            f"{call.method} {call.path} was answered in a form that this version of the client "
            f"does not know: {error!r}"
        )
        if versions := explain_versions(response.headers.get(HEADER)):
            message = f"{message}; {versions}"
        raise UnknownAnswerError(message) from error
    return Received(
        value=value, etag=response.headers.get("etag"), location=response.headers.get("location")
    )


def expect(answer: object, kind: type[T]) -> T:
    """Return an answer of the one kind that is due.

    Raises UnknownAnswerError for another that the operation has.
    """
    if isinstance(answer, kind):
        return answer
    message = f"the server sent a {type(answer).__name__} where a {kind.__name__} was due"
    raise UnknownAnswerError(message)


def _require_success(response: httpx.Response) -> None:
    if not response.is_success:
        response.read()
        raise build_refusal(response, retry_after_s(response))


def build_refusal(response: httpx.Response, after_s: float | None) -> Exception:
    """Return the error of a response that is no success."""
    problem = read_problem(response)
    if isinstance(problem, TooManyRequestsError):
        problem.retry_after_s = after_s
    return problem


def build_unreachable(base_url: str, fault: httpx.TransportError) -> UnreachableError:
    """Return the error of a server that gave no answer."""
    never_sent = isinstance(fault, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    what = "was not reached" if never_sent else "did not answer, and may have done what was asked"
    return UnreachableError(f"the server at {base_url} {what}: {fault or type(fault).__name__}")
