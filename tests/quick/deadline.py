"""A plugin of pytest: what has not begun when the time is up is left out, and named."""

import time

import pytest

_LEFT_OUT = "left out: the time was up"
_MAX_NAMED = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the time after which no test begins."""
    parser.addoption("--until", type=float, default=float("inf"), help="seconds since the epoch")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a test out that would begin too late."""
    if time.time() > item.config.getoption("until"):
        pytest.skip(_LEFT_OUT)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the files of which something was left out."""
    late = [
        report.nodeid.partition("::")[0]
        for report in terminalreporter.stats.get("skipped", [])
        if _LEFT_OUT in str(report.longrepr)
    ]
    if late:
        terminalreporter.write_line(describe_late(late))


def describe_late(late: list[str]) -> str:
    """Return how many tests were left out, and of which files."""
    files = list(dict.fromkeys(late))
    more = f" and {len(files) - _MAX_NAMED} more" if len(files) > _MAX_NAMED else ""
    named = " ".join(files[:_MAX_NAMED])
    return f"left out for time: {len(late)} tests of {len(files)} files: {named}{more}"
