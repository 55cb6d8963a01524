"""Processes that xdist starts."""

import os
from pathlib import Path

import pytest


def test_a_process_is_a_fork_of_the_one_that_collected() -> None:
    """Its modules were loaded once, for all."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("one process runs the tests")

    parent = Path(f"/proc/{os.getppid()}/cmdline").read_text()

    assert "tests.running.collected" in parent
