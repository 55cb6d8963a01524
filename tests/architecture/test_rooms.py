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
import importlib, json, os, sys, threading
plan = json.loads(sys.argv[1])

def load(room):
    for name in plan[room]["modules"]:
        importlib.import_module(name)
    assert threading.active_count() == 1, "a module started a thread when it was imported"
    print(json.dumps([room, sorted(sys.modules)]), flush=True)
    for other in (name for name in plan if plan[name]["after"] == room):
        if not (child := os.fork()):
            load(other)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, other

try:
    load(next(iter(plan)))
except BaseException:
    sys.excepthook(*sys.exc_info())
    os._exit(1)
"""
_AFTER = {
    "planner and calibration": "estimator",
    "catalogue and formats": "planner and calibration",
    "contract": "catalogue and formats",
    "use cases": "contract",
    "web": "use cases",
    "worker": "use cases",
}
"""Rooms that are loaded behind another one, which keeps at least the same modules away."""


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_room_loads_nothing_that_it_may_not_know(room: Room) -> None:
    """Loading all modules of a room brings none of the rooms and libraries that the import table
    keeps from it.
    """
    loaded = _load_rooms()[room.name]

    assert [name for name in loaded if is_within(name, tuple(room.without))] == []


def test_the_estimator_needs_the_standard_library_alone() -> None:
    """Nothing is loaded from outside of the standard library but the estimator itself."""
    loaded = _load_rooms()

    foreign = {
        name.partition(".")[0] for name in set(loaded["estimator"]) - set(loaded[""])
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


def test_a_room_is_loaded_behind_one_that_may_know_no_more() -> None:
    """What the first of two rooms brings is nothing that only the second may not know."""
    rooms = {room.name: room for room in ROOMS}

    assert [
        (name, before)
        for name, before in _AFTER.items()
        if any(is_within(member, tuple(rooms[name].without)) for member in rooms[before].members())
    ] == []


@cache
def _load_rooms() -> dict[str, list[str]]:
    """Return what an interpreter has loaded after importing each room in silence, and before.

    A fresh one forks for each room that none is loaded before.
    """
    plan = {"": {"modules": (), "after": None}} | {
        room.name: {"modules": room.members(), "after": _AFTER.get(room.name, "")} for room in ROOMS
    }
    run = subprocess.run(
        [sys.executable, "-c", _LOAD, json.dumps(plan)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == "", "importing wrote to stderr"
    return dict(json.loads(line) for line in run.stdout.splitlines())
