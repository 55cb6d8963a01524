"""The API on a real socket, over a real Postgres and Redis, fresh for every test."""

import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn

from service.app import create_app
from service.cli.serving.connection import BoundedConnection
from service.runtime.children import starting
from service.runtime.settings import Settings
from tests.running.forked import ForkedProgram
from tests.waiting import eventually

REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Where a test's Postgres and Redis are."""

    database_url: str
    redis_url: str

    def environment(self) -> dict[str, str]:
        """Return what a process of ours reads."""
        return {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "HOME": "/nonexistent",
        }


@pytest.fixture
def servers(database_url: str, redis_url: str) -> Servers:
    """Return a migrated database and an empty Redis, which are this test's alone."""
    return Servers(database_url=database_url, redis_url=redis_url)


@pytest.fixture
def client(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    """Return a client of the API, which listens on a free port."""
    monkeypatch.setattr(starting, "FORK_SERVER", "tests.running.children")
    app = create_app(Settings.from_env(servers.environment()))
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=BoundedConnection,
        ws="none",
        log_config=None,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        eventually(lambda: server.started)
        with httpx.Client(
            base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=30.0
        ) as client:
            yield client
        server.should_exit = True
        thread.join()


@pytest.fixture
def worker(servers: Servers) -> Iterator[None]:
    """Run a real worker whose probe plays the script in the request's model."""
    probe = f"{sys.executable} -m tests.fake_probe"
    arguments = ("--device", "cpu", "--probe-command", probe)
    environment = {
        **servers.environment(),
        "HEADROOM_POLL_INTERVAL_S": "0.5",
        "PATH": "/usr/bin:/bin",
    }
    with ForkedProgram("worker", *arguments, env=environment, cwd=REPOSITORY) as process:
        yield
        process.terminate()
        process.wait(timeout=30)
