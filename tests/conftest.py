"""Fixtures of every test.

Settings of the person who runs it are cleared, and real servers run on demand.
"""

import gc
import os
import sys

import pytest
import structlog
from hypothesis import settings

# No test is timed: a machine that is busy elsewhere fails none.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# Of a fault that a test provokes, rich would draw each local variable of each frame for a second.
structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback
pytest_plugins = [
    "tests.running.arranging",
    "tests.running.loops",
    "tests.running.workers",
    "tests.servers",
    "tests.traces.telling",
]
# What pytest rewrites is kept for its other processes and the next run, whatever the environment
# says of programs.
sys.dont_write_bytecode = False
# Python's own thresholds look for cycles at every seven hundred objects, a fifth of a trace's time.
gc.set_threshold(20_000, 20, 20)


def pytest_collection_finish() -> None:
    """Keep what was imported for the tests out of every garbage collection.

    torch and the tests are a million objects, and a probe collects before each of its runs.
    """
    gc.freeze()


@pytest.fixture(autouse=True)
def _clear_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the variables that would point a test at somebody's database."""
    for name in list(os.environ):
        if name.startswith("HEADROOM_") or name in {
            "DATABASE_URL",
            "REDIS_URL",
            "PROMETHEUS_MULTIPROC_DIR",
        }:
            monkeypatch.delenv(name)
