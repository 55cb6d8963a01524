"""Plugin of pytest that tells when kept traces are of other code."""

import pytest

from tests.traces.store import STORES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the files of no use, in whose place models were traced."""
    stale = [store.path.name for store in STORES if store.is_stale]
    if stale:
        terminalreporter.section("kept traces")
        terminalreporter.line(
            f"{' and '.join(stale)} are of other code, and models were traced instead: "
            "python -m tests.traces keeps them anew"
        )
