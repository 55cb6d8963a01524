"""The command line as a client: problems become errors in words, and so does a server that is not there."""

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from service.base.errors import InvalidRequestError, ServiceError
from service.client.bearer import bearer
from service.client.naming import NO_NAMES

DEFAULT_SERVER = "http://127.0.0.1:8000"
PAGE = 200
_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 3.0

Document = dict[str, Any]
"""A JSON object of the contract."""


def add_server(parser: argparse.ArgumentParser) -> None:
    """Take the address of the server."""
    parser.add_argument("--server", metavar="URL", help=f"the server to ask (default HEADROOM_URL or {DEFAULT_SERVER})")


@contextmanager
def connect(server: str | None) -> Iterator[httpx.Client]:
    """Yield a client for the server that is named, or that the environment names, or for the usual one."""
    url = server or os.environ.get("HEADROOM_URL") or DEFAULT_SERVER
    _check_url(url)
    timeout = httpx.Timeout(_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
    try:
        with httpx.Client(base_url=url, timeout=timeout, headers=_headers()) as client:
            yield client
    except httpx.ConnectError:
        message = f"no server answers at {url}; start one with `headroom up`, or name another with --server"
        raise ServiceError(message) from None
    except httpx.TimeoutException:
        message = f"the server at {url} does not answer in time"
        raise ServiceError(message) from None
    except httpx.HTTPError as error:
        message = f"the connection to {url} broke: {error}"
        raise ServiceError(message) from None


def _headers() -> dict[str, str]:
    key = os.environ.get("HEADROOM_API_KEY")
    try:
        return {"accept": "application/json"} | ({"authorization": bearer(key)} if key else {})
    except ValueError as error:
        message = f"HEADROOM_API_KEY: {error}"
        raise ServiceError(message) from None


def _check_url(url: str) -> None:
    try:
        parsed = urlsplit(url)
        fits = parsed.scheme in {"http", "https"} and bool(parsed.hostname) and (parsed.port or 1) > 0
    except ValueError:
        fits = False
    if not fits:
        message = f"{url!r} is no address of a server; it must be like {DEFAULT_SERVER}"
        raise ServiceError(message)


def ask(
    client: httpx.Client,
    method: str,
    path: str,
    *,
    body: object = None,
    parameters: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """Send one request and return its answer; a problem document is raised in its own words."""
    content = None if body is None else json.dumps(body).encode()
    sent = {**(headers or {}), **({} if content is None else {"content-type": "application/json"})}
    answer = client.request(method, path, content=content, params=parameters, headers=sent)
    if answer.is_success:
        return answer
    raise ServiceError(problem_words(answer))


def read(client: httpx.Client, path: str, **parameters: str) -> Document:
    """Return one JSON object."""
    document: Document = ask(client, "GET", path, parameters=parameters).json()
    return document


def read_all(client: httpx.Client, path: str, **parameters: str) -> list[Document]:
    """Return all items of a list, page by page."""
    items: list[Document] = []
    asked = {**parameters, "limit": str(PAGE)}
    while True:
        page = read(client, path, **asked)
        items += page["items"]
        if not page["next_cursor"]:
            return items
        asked["cursor"] = page["next_cursor"]


def delete(client: httpx.Client, path: str, *, query: str = "") -> None:
    """Delete what is stored now: the version that is read is the version that goes."""
    etag = ask(client, "GET", path).headers.get("etag", "*")
    ask(client, "DELETE", path + query, headers={"if-match": etag})


def replace(client: httpx.Client, path: str, body: object) -> Document:
    """Replace what is stored now."""
    etag = ask(client, "GET", path).headers.get("etag", "*")
    document: Document = ask(client, "PUT", path, body=body, headers={"if-match": etag}).json()
    return document


def path_of(*parts: str) -> str:
    """Return ``/v1/a/b`` with every part quoted; raises InvalidRequestError for a part that names nothing."""
    if not NO_NAMES.isdisjoint(parts):
        message = f"{'/'.join(parts)!r} has a part that is no name: an empty one, '.' or '..'"
        raise InvalidRequestError(message)
    return "/".join(["/v1", *(quote(part, safe="") for part in parts)])


def problem_words(answer: httpx.Response) -> str:
    """Return what a refusal says: its detail, or what can be said without one."""
    try:
        document = json.loads(answer.read())
    except ValueError:
        document = None
    if isinstance(document, dict) and isinstance(document.get("detail"), str):
        return str(document["detail"])
    return f"the server answered {answer.status_code} {answer.reason_phrase} to {answer.request.method} {answer.request.url}"
