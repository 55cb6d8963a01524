"""What `headroom up` starts, and what it says when something will be missing."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from service.cli.commands.up import count_workers_to_start
from service.cli.commands.worker import EXTRA
from service.embedded.events import NullLog
from worker.__main__ import PROBE_PACKAGES

ROOT = Path(__file__).parents[4]
NOT_IMPORTED = {"nvidia-ml-py"}
"""Of the extra, what only a GPU worker would import."""


class Warnings(NullLog):
    """A log that remembers its warnings."""

    def __init__(self) -> None:
        """Hear nothing yet."""
        self.heard: list[dict[str, Any]] = []

    def warning(self, event: str, **keys: object) -> None:
        """Remember one."""
        self.heard.append({"event": event, **keys})


@pytest.mark.parametrize(
    ("wanted", "missing", "started", "mend"),
    [
        (2, (), 2, None),
        (0, (), 0, "--workers 1"),
        (1, ("peft",), 0, "gpu-headroom[worker]"),
        (0, ("peft",), 0, "--workers 1"),
    ],
)
def test_measurements_that_will_wait_are_announced(
    wanted: int, missing: tuple[str, ...], started: int, mend: str | None
) -> None:
    """Without a worker, wanted or not, one line says what that means and what mends it."""
    log = Warnings()

    assert count_workers_to_start(wanted, missing, log) == started

    assert len(log.heard) == (mend is not None)
    for warning in log.heard:
        assert warning["effect"] == "measurements wait for a worker"
        assert mend is not None
        assert mend in str(warning["mend"])


def test_a_worker_needs_the_whole_extra() -> None:
    """Whatever the extra installs is looked for before a worker starts."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = {
        requirement.partition("==")[0].partition(">=")[0]
        for requirement in project["optional-dependencies"]["worker"]
    }

    assert set(EXTRA) == set(PROBE_PACKAGES) == packages - NOT_IMPORTED
