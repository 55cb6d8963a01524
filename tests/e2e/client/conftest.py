"""A server of this machine's own, a worker that plays a probe, and a client of both."""

import atexit
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from deploy.release.native.staging import write_front
from service.client.headroom import Headroom
from tests.e2e.access.conftest import serving
from tests.running.forked import ForkedProgram
from tests.system import build_environment

REPOSITORY = Path(__file__).parents[3]


@cache
def list_paths() -> str:
    """Return where a program finds the rooms, and what people import."""
    folder = TemporaryDirectory(prefix="headroom-front-")
    atexit.register(folder.cleanup)
    write_front(REPOSITORY, Path(folder.name))
    return f"{REPOSITORY}:{folder.name}"


@pytest.fixture
def url(database_url: str, redis_url: str) -> Iterator[str]:
    """Return the address of a server whose own machine needs no key."""
    with serving({"DATABASE_URL": database_url, "REDIS_URL": redis_url}) as url:
        yield url


@pytest.fixture
def headroom(url: str) -> Iterator[Headroom]:
    """Return a client of that server."""
    with Headroom(url) as headroom:
        yield headroom


@pytest.fixture
def worker(database_url: str, redis_url: str) -> Iterator[None]:
    """Run a real worker whose probe answers at once."""
    probe = f"{sys.executable} -m tests.fake_probe"
    arguments = ("--device", "cpu", "--probe-command", probe)
    environment = {**build_environment(database_url), "REDIS_URL": redis_url}
    with ForkedProgram("worker", *arguments, env=environment, cwd=REPOSITORY) as process:
        yield
        process.terminate()
        process.wait(timeout=30)
