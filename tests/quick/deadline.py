"""A plugin of pytest: what has not begun when the time is up is left out, and named.

The time begins when the tests are collected, so that a busy machine runs some too.
"""

import time
from collections.abc import Iterator

import pytest

_LEFT_OUT = "left out: the time was up"
_MAX_NAMED = 20
_RAN = ("passed", "failed", "error", "xfailed", "xpassed")
_DEADLINE = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the seconds after which no test begins."""
    parser.addoption(
        "--seconds", type=float, default=float("inf"), help="seconds in which tests begin"
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin the time."""
    session.config.stash[_DEADLINE] = time.monotonic() + session.config.getoption("seconds")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a test out that would begin too late."""
    if time.monotonic() >= item.config.stash[_DEADLINE]:
        pytest.skip(_LEFT_OUT)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run whose tests were all left out."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    # A process of several has no reporter: the one that collects their reports decides.
    if reporter is None or not list(_iterate_late(reporter)):
        return
    if not any(reporter.stats.get(outcome) for outcome in _RAN):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the files of which something was left out."""
    late = list(_iterate_late(terminalreporter))
    if late:
        terminalreporter.write_line(describe_late(late))


def describe_late(late: list[str]) -> str:
    """Return how many tests were left out, and of which files."""
    files = list(dict.fromkeys(late))
    more = f" and {len(files) - _MAX_NAMED} more" if len(files) > _MAX_NAMED else ""
    named = " ".join(files[:_MAX_NAMED])
    return f"left out for time: {len(late)} tests of {len(files)} files: {named}{more}"


def _iterate_late(reporter: pytest.TerminalReporter) -> Iterator[str]:
    """Yield the file of each test that was left out."""
    for report in reporter.stats.get("skipped", []):
        if _LEFT_OUT in str(report.longrepr):
            yield report.nodeid.partition("::")[0]
