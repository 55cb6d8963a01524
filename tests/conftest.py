"""Fixtures of every test.

Settings of the person who runs it are cleared, and real servers run on demand.
"""

import os

import pytest

pytest_plugins = ["tests.servers"]


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
