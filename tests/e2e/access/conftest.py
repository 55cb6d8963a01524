"""A server that lets in holders of keys only."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
import uvicorn
from sqlalchemy.orm import Session, sessionmaker

from service.access.keys import Scope
from service.app import create_app
from service.cli.serving.connection import BoundedConnection
from service.runtime.settings import Settings
from service.usecases.access import keys
from service.usecases.access.keys import NewKey
from tests.waiting import eventually


@contextmanager
def serving(environment: dict[str, str]) -> Iterator[str]:
    """Serve the whole application and yield its address."""
    app = create_app(Settings.from_env({"HOME": "/nonexistent", **environment}))
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            loop="uvloop",
            http=BoundedConnection,
            ws="none",
            log_config=None,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        ),
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        eventually(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def address(database_url: str, redis_url: str) -> Iterator[str]:
    """Return the address of a server that lets in holders of keys only."""
    with serving(
        {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "HEADROOM_ACCESS": "keys"}
    ) as address:
        yield address


def make_key(sessions: sessionmaker[Session], *scopes: Scope, **limits: str) -> str:
    """Make a key in the database, as the command line does."""
    new = NewKey(
        name=f"{scopes[0].value} key",
        scopes=frozenset(scopes),
        created_by="a test",
        **limits,  # type: ignore[arg-type]  # limits are texts
    )
    return keys.create(sessions, new)[1]


def ask(
    address: str, method: str, path: str, key: str | None = None, **more: object
) -> httpx.Response:
    """Send one request, with a key or without; ``if_match`` is a header of it."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    if "if_match" in more:
        headers["if-match"] = str(more.pop("if_match"))
    # Reading this machine's certificates, which loopback needs none of, would cost more than the
    # request.
    with httpx.Client(timeout=30, verify=False) as client:  # noqa: S501 - there is no TLS
        return client.request(method, address + path, headers=headers, **more)  # type: ignore[arg-type]  # httpx's own words


def until_known(address: str, key: str) -> None:
    """Return as soon as the server lets a key in, for whatever it may do."""
    eventually(
        lambda: ask(address, "GET", "/v1/gpus?limit=1", key).status_code != httpx.codes.UNAUTHORIZED
    )
