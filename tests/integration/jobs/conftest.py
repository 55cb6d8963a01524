"""Connections to the test's Redis."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from redis import Redis

from service.jobs.notify import connect_to_listen


@pytest.fixture
def redis(redis_url: str) -> Iterator["Redis"]:
    """Return an attacker's, or a worker's, connection."""
    with closing(connect_to_listen(redis_url)) as client:
        yield client
