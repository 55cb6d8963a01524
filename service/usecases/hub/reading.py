"""Requests to a hub.

They are bounded in bytes, time and redirects; the token is for the hub's own host alone.
"""

import time
from collections.abc import Mapping
from io import RawIOBase
from types import TracebackType
from typing import Self
from urllib.parse import quote

import httpx
import msgspec

from service.base.hub_errors import HubContentError, HubRefusedError, HubUnavailableError
from service.usecases.hub.addresses import HubPolicy
from service.usecases.hub.deadlines import limit_requests

DEADLINE_S = 20.0
"""Seconds that all requests for one model may take together."""
MAX_JSON_BYTES = 32 * 2**20
MAX_TOTAL_BYTES = 128 * 2**20
_MAX_REDIRECTS = 5
_TIMEOUT_S = 10.0
_MAX_DEPTH = 64
_PIECE = 2 * 2**20
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SIGN_IN, _FORBIDDEN, _NOT_FOUND, _NO_RANGE = 401, 403, 404, 416


class HubReader:
    """Files of one model on a hub, for one caller."""

    def __init__(
        self, policy: HubPolicy, transport: httpx.BaseTransport, *, token: str | None = None
    ) -> None:
        """Start the clock; nothing is asked before the first file."""
        self._policy, self._token = policy, token
        self._client = httpx.Client(transport=transport, timeout=_TIMEOUT_S, trust_env=False)
        self._end = time.monotonic() + DEADLINE_S
        self._origin = _get_origin(httpx.URL(policy.endpoint))
        self.num_bytes = 0

    def __enter__(self) -> Self:
        """Return the reader itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Forget the client; its transport is its owner's."""
        self._token = None

    def read_info(self, repository: str, revision: str) -> Mapping[str, object]:
        """Return what the hub knows of a model at a revision."""
        return self._read_json(f"/api/models/{repository}/revision/{quote(revision, safe='')}")

    def read_json_file(self, repository: str, commit: str, file: str) -> Mapping[str, object]:
        """Return a file that is a JSON object."""
        return self._read_json(_make_path(repository, commit, file))

    def read_range(self, repository: str, commit: str, file: str, start: int, size: int) -> bytes:
        """Return a part of a file; empty behind its end."""
        headers = {"range": f"bytes={start}-{start + size - 1}"}
        status, body = self._get(_make_path(repository, commit, file), size, headers, start=start)
        return b"" if status == _NO_RANGE else body

    def open_file(self, repository: str, commit: str, file: str) -> "RangeFile":
        """Return a file that is read range by range."""
        return RangeFile(self, repository, commit, file)

    def _read_json(self, path: str) -> Mapping[str, object]:
        _, body = self._get(path, MAX_JSON_BYTES + 1, {"accept": "application/json"})
        name = path.rpartition("/")[2]
        if len(body) > MAX_JSON_BYTES:
            message = f"{name} has more than {MAX_JSON_BYTES:,} bytes"
            raise HubContentError(message)
        try:
            document = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            message = f"the hub's {name} is not JSON"
            raise HubContentError(message) from None
        if not isinstance(document, dict) or _is_deep(document):
            message = f"the hub's {name} is no JSON object of at most {_MAX_DEPTH} levels"
            raise HubContentError(message)
        return document

    def _get(
        self, path: str, limit: int, headers: Mapping[str, str], *, start: int = 0
    ) -> tuple[int, bytes]:
        """Return status and body, of which at most ``limit`` bytes are read."""
        url = httpx.URL(self._policy.endpoint.rstrip("/") + path)
        sends_token = self._token is not None
        for _ in range(_MAX_REDIRECTS + 1):
            self._count(0, url)
            # Once it has left the hub's host a request never has the token again.
            sends_token = sends_token and _get_origin(url) == self._origin
            secret = {"authorization": f"Bearer {self._token}"} if sends_token else {}
            try:
                answer, body = self._send(url, {**headers, **secret}, limit, start)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                message = f"{url.host} does not answer: {type(error).__name__}"
                raise HubUnavailableError(message) from None
            if answer.status_code not in _REDIRECTS:
                self._check_status(answer, path)
                return answer.status_code, body
            url = _follow(url, answer)
        message = f"the hub redirects more than {_MAX_REDIRECTS} times"
        raise HubContentError(message)

    def _send(
        self, url: httpx.URL, headers: Mapping[str, str], limit: int, start: int
    ) -> tuple[httpx.Response, bytes]:
        body = bytearray()
        # No compression: what is counted is what comes over the wire.
        plain = {"accept-encoding": "identity", "user-agent": "headroom"}
        request = self._client.stream("GET", url, headers={**plain, **headers})
        with limit_requests(self._end), request as answer:
            is_whole = start and answer.status_code == httpx.codes.OK
            if is_whole:
                message = f"{url.host} does not honour Range, which the header of a file needs"
                raise HubContentError(message)
            if answer.is_success:
                for part in answer.iter_raw():
                    self._count(len(part), url)
                    body += part
                    if len(body) >= limit:
                        break
        return answer, bytes(body[:limit])

    def _count(self, size: int, url: httpx.URL) -> None:
        self.num_bytes += size
        if time.monotonic() > self._end:
            message = f"{url.host} takes longer than {DEADLINE_S:g} s"
            raise HubUnavailableError(message)
        if self.num_bytes > MAX_TOTAL_BYTES:
            message = f"the model's headers have more than {MAX_TOTAL_BYTES:,} bytes"
            raise HubContentError(message)

    def _check_status(self, answer: httpx.Response, path: str) -> None:
        status = answer.status_code
        if answer.is_success or status == _NO_RANGE:
            return
        if status in {_SIGN_IN, _FORBIDDEN, _NOT_FOUND}:
            message = _explain_refusal(status, answer.headers.get("x-error-code", ""), path)
            raise HubRefusedError(
                message,
                hub_status=status,
                errors=[{"field": "model.hub", "message": message}],
            )
        message = f"the hub answers with {status}"
        raise HubUnavailableError(message)


class RangeFile(RawIOBase):
    """A file on the hub as a stream of growing ranges."""

    def __init__(self, reader: HubReader, repository: str, commit: str, file: str) -> None:
        """Start at the beginning; nothing is asked yet."""
        super().__init__()
        self._reader, self._place = reader, (repository, commit, file)
        self._at, self._size = 0, _PIECE

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, _size: int = -1, /) -> bytes:
        """Return the next range, of whatever size is due."""
        piece = self._reader.read_range(*self._place, self._at, self._size)
        self._at += len(piece)
        self._size = min(2 * self._size, 8 * _PIECE)
        return piece


def _make_path(repository: str, commit: str, file: str) -> str:
    return f"/{repository}/resolve/{commit}/{quote(file)}"


def _get_origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host.lower(), url.port


def _follow(url: httpx.URL, answer: httpx.Response) -> httpx.URL:
    """Return where a redirect leads to."""
    try:
        return url.join(answer.headers["location"])
    except (KeyError, httpx.InvalidURL):
        message = f"{url.host} redirects to nowhere"
        raise HubContentError(message) from None


def _explain_refusal(status: int, code: str, path: str) -> str:
    name = "/".join(part for part in path.split("/")[1:] if part not in {"api", "models"})
    name = name.partition("/revision/")[0].partition("/resolve/")[0]
    if code == "GatedRepo" or status == _FORBIDDEN:
        return (
            f"{name} is gated: its owners let in whom they know. Accept its terms on the hub, and "
            "send a token of that account in the header Hub-Token"
        )
    if status == _SIGN_IN:
        return (
            f"the hub shows {name} to nobody without a token, or there is none of this name: send "
            "one in the header Hub-Token, or mend the name"
        )
    if code == "RevisionNotFound":
        return f"{name} has no such revision on the hub"
    return f"there is no {name} on the hub, or not for this token"


def _is_deep(document: object) -> bool:
    """Return whether JSON is nested deeper than a request may be."""
    level = [document]
    for _ in range(_MAX_DEPTH + 1):
        level = [item for value in level for item in _list_items(value)]
    return bool(level)


def _list_items(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
