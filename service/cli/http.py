"""HTTP client of the command line.

Problem documents become errors in words, and so does a server that is not there.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import httpx

from service.base.errors import (
    InvalidRequestError,
    ServiceError,
    UnavailableError,
)
from service.base.server_refusals import ServerRefusalError
from service.base.server_versions import HEADER, explain_refusal, note_version
from service.client.bearer import format_bearer
from service.client.naming import DEFAULT_SERVER, NO_NAMES, check_address

PAGE = 200
_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 3.0

Document = dict[str, Any]
"""A JSON object of the contract."""


def add_server(parser: argparse.ArgumentParser) -> None:
    """Add the address of the server."""
    parser.add_argument(
        "--server",
        metavar="URL",
        help=f"the server to ask (default HEADROOM_URL or {DEFAULT_SERVER})",
    )


def find_server(server: str | None) -> str:
    """Return the server's address: named, else the environment's, else the usual."""
    return server or os.environ.get("HEADROOM_URL") or DEFAULT_SERVER


@contextmanager
def connect(server: str | None) -> Iterator[httpx.Client]:
    """Yield a client for a server.

    The server that is named, or that the environment names, or the usual one.
    """
    url = find_server(server)
    check_url(url)
    timeout = httpx.Timeout(_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
    try:
        with httpx.Client(base_url=url, timeout=timeout, headers=build_headers()) as client:
            yield client
    except httpx.ConnectError:
        message = (
            f"no server answers at {url}; start one with `headroom up`, or name another with "
            "--server"
        )
        raise UnavailableError(message) from None
    except httpx.TimeoutException:
        message = f"the server at {url} does not answer in time"
        raise UnavailableError(message) from None
    except httpx.HTTPError as error:
        message = f"the connection to {url} broke: {error}"
        raise ServiceError(message) from None


def build_headers() -> dict[str, str]:
    """Return the headers of each request, with HEADROOM_API_KEY."""
    key = os.environ.get("HEADROOM_API_KEY")
    try:
        return {"accept": "application/json"} | (
            {"authorization": format_bearer(key)} if key else {}
        )
    except ValueError as error:
        message = f"HEADROOM_API_KEY: {error}"
        raise ServiceError(message) from None


def check_url(url: str) -> None:
    """Refuse an address that no server has."""
    try:
        check_address(url)
    except ValueError as error:
        raise ServiceError(str(error)) from None


def ask(
    client: httpx.Client,
    method: str,
    path: str,
    *,
    body: object = None,
    parameters: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """Send one request and return its answer.

    A problem document is raised in its own words.
    """
    content = None if body is None else json.dumps(body).encode()
    sent = {**(headers or {}), **({} if content is None else {"content-type": "application/json"})}
    answer = client.request(method, path, content=content, params=parameters, headers=sent)
    note_version(answer.headers.get(HEADER))
    if answer.is_success:
        return answer
    raise read_refusal(answer)


def read(client: httpx.Client, path: str, **parameters: str) -> Document:
    """Return one JSON object."""
    document: Document = ask(client, "GET", path, parameters=parameters).json()
    return document


def read_all(
    client: httpx.Client, path: str, *, at_most: int | None = None, **parameters: str
) -> list[Document]:
    """Return all items of a list, or the first, page by page."""
    items: list[Document] = []
    query = dict(parameters)
    while at_most is None or len(items) < at_most:
        size = PAGE if at_most is None else min(PAGE, at_most - len(items))
        page = read(client, path, **query, limit=str(size))
        items += page["items"]
        if not page["next_cursor"]:
            break
        query["cursor"] = page["next_cursor"]
    return items


def delete(client: httpx.Client, path: str, *, query: str = "") -> None:
    """Delete the version that is stored now.

    The version that is read is the version that goes.
    """
    etag = ask(client, "GET", path).headers.get("etag", "*")
    ask(client, "DELETE", path + query, headers={"if-match": etag})


def replace(client: httpx.Client, path: str, body: object) -> Document:
    """Replace what is stored now."""
    etag = ask(client, "GET", path).headers.get("etag", "*")
    document: Document = ask(client, "PUT", path, body=body, headers={"if-match": etag}).json()
    return document


def build_path(*parts: str) -> str:
    """Return ``/v1/a/b`` with every part quoted.

    Raises InvalidRequestError for a part that names nothing.
    """
    if not NO_NAMES.isdisjoint(parts):
        message = f"{'/'.join(parts)!r} has a part that is no name: an empty one, '.' or '..'"
        raise InvalidRequestError(message)
    return "/".join(["/v1", *(quote(part, safe="") for part in parts)])


def read_refusal(answer: httpx.Response) -> ServiceError:
    """Return a refusal with its problem document, else its status."""
    try:
        document = json.loads(answer.read())
    except ValueError:
        document = None
    if isinstance(document, dict) and isinstance(document.get("detail"), str):
        server_version = answer.headers.get(HEADER)
        detail = explain_refusal(answer.status_code, document["detail"], server_version)
        return ServerRefusalError({**document, "detail": detail})
    message = (
        f"the server answered {answer.status_code} {answer.reason_phrase} to "
        f"{answer.request.method} {answer.request.url}"
    )
    return ServiceError(message)
