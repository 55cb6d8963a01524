"""The server that the contract is held against."""

from collections.abc import Iterator

import pytest

from tests.e2e.access.conftest import serving


@pytest.fixture
def address(database_url: str, redis_url: str) -> Iterator[str]:
    """Return the address of a server that lets in holders of keys only."""
    with serving(
        {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "HEADROOM_ACCESS": "keys"}
    ) as address:
        yield address
