"""Every room, loaded in a fresh interpreter: what a static tool cannot see, lazy and dynamic
imports included.
"""

import json
import subprocess
import sys
from functools import cache

import pytest

from tests.architecture.modules import ROOT
from tests.architecture.rooms import ROOMS, Room, is_within, list_modules_below

_LOAD = """
import importlib, json, sys, threading
for name in sys.argv[1:]:
    importlib.import_module(name)
assert threading.active_count() == 1, "a module started a thread when it was imported"
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_room_loads_nothing_that_it_may_not_know(room: Room) -> None:
    """Loading all modules of a room brings none of the rooms and libraries that the import table
    keeps from it.
    """
    loaded = _load(room.members())

    assert [name for name in loaded if is_within(name, tuple(room.without))] == []


def test_the_estimator_needs_the_standard_library_alone() -> None:
    """Nothing is loaded from outside of the standard library but the estimator itself."""
    names = list_modules_below("service.estimator")

    foreign = {
        name.partition(".")[0] for name in set(_load(tuple(names))) - set(_load(()))
    } - sys.stdlib_module_names

    assert foreign == {"service"}


def test_every_module_of_the_service_is_in_a_room() -> None:
    """A new folder must be put into the import table before it can be merged."""
    known = {name for room in ROOMS for name in room.members()}
    roots = (
        "service.base.command_errors",
        "service.base.count_errors",
        "service.base.errors",
        "service.base.explain_errors",
        "service.base.gzip_json",
        "service.base.hub_errors",
        "service.base.packages",
        "service.base.recording_errors",
        "service.base.server_refusals",
        "service.base.server_versions",
        "service.base.site_errors",
        "service.base.startup_errors",
        "service.runtime.background_program",
        "service.runtime.child_environ",
        "service.runtime.children",
        "service.runtime.deadline",
        "service.runtime.line_process",
        "service.runtime.logs",
        "service.runtime.memory_limit",
        "service.runtime.process_user",
        "service.runtime.recording_files",
        "service.runtime.settings",
        "service.runtime.variables",
        "service.cli",
        "service.__main__",
        "service.app",
        "service.telemetry.otel",
    )

    homeless = [
        name
        for name in list_modules_below("service")
        if name not in known and not is_within(name, roots)
    ]

    assert homeless == []


@cache
def _load(names: tuple[str, ...]) -> list[str]:
    """Return what a fresh interpreter has loaded after importing the modules in silence."""
    run = subprocess.run(
        [sys.executable, "-c", _LOAD, *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == "", "importing wrote to stderr"
    loaded: list[str] = json.loads(run.stdout)
    return loaded
