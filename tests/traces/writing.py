"""Plugin of pytest that traces everything, and keeps it."""

import pytest

from tests.traces.store import STORES


def pytest_addoption(parser: pytest.Parser) -> None:
    """Tell a run of some tests from one of all that use traces."""
    parser.addoption("--adds-traces", action="store_true", help="keep what is there as well")


def pytest_configure() -> None:
    """Use nothing of what is kept."""
    for store in STORES:
        store.writing = True


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep what was traced, also where a test failed: what it found is what it found."""
    if exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        adds = session.config.getoption("--adds-traces")
        for store in STORES:
            if store.made or not adds:
                store.write(adds=adds)
