"""Event loops of tests that run after those of the browser.

Playwright's synchronous API leaves its loop marked as running between its calls
(``_impl/_greenlets.py``, ``wait_for_future``), so that nobody else may run one in that process.
"""

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

_BROWSER = "tests/browser/"


@contextmanager
def hide_running_loop() -> Iterator[None]:
    """Have no loop marked as running meanwhile."""
    loop = asyncio._get_running_loop()  # noqa: SLF001 - public by asyncio's __all__
    asyncio._set_running_loop(None)  # noqa: SLF001 - the same
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)  # noqa: SLF001 - the same


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Hide the browser's loop from the fixtures of other tests."""
    if item.nodeid.startswith(_BROWSER):
        return (yield)
    with hide_running_loop():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Hide the browser's loop from other tests."""
    if item.nodeid.startswith(_BROWSER):
        return (yield)
    with hide_running_loop():
        return (yield)
