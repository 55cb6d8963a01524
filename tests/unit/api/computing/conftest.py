"""Processes that compute, shared by the tests of a file."""

from collections.abc import Iterator

import pytest

from service.api.computing.search_processes import SEARCH_MODULES
from service.runtime.children.pool import ChildPool
from service.runtime.children.starting import ChildStarter
from tests.unit.api.computing import functions


@pytest.fixture(scope="module")
def pool() -> Iterator[ChildPool]:
    """Return processes that compute."""
    pool = ChildPool(ChildStarter((*SEARCH_MODULES, functions.__name__)), keeps=True)
    yield pool
    pool.close()
