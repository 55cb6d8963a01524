"""Every room, loaded in a fresh interpreter: what a static tool cannot see, lazy and dynamic
imports included.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_LOAD = """
import importlib, json, sys, threading
for name in sys.argv[1:]:
    importlib.import_module(name)
assert threading.active_count() == 1, "a module started a thread when it was imported"
print(json.dumps(sorted(sys.modules)))
"""
_OUTSIDE = frozenset(
    {
        "alembic",
        "litestar",
        "psycopg",
        "redis",
        "rq",
        "sqlalchemy",
        "structlog",
        "torch",
        "transformers",
    },
)
_TRACING = frozenset({"opentelemetry.exporter", "opentelemetry.sdk.trace"})
"""Loaded where spans are asked for; redis-py loads other parts of OpenTelemetry by itself wherever
it is installed.
"""
_DEEP = frozenset({"torch", "transformers", "peft", "numpy", "pynvml"}) | _TRACING


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Modules that are loaded together, and what must not come with them; prefixes name everything
    below them.
    """

    name: str
    modules: tuple[str, ...]
    without: frozenset[str]
    excluding: tuple[str, ...] = ()

    def members(self) -> tuple[str, ...]:
        """Return every module of the room, read off the file system, so that new ones join by
        themselves.
        """
        found = (name for prefix in self.modules for name in _modules_below(prefix))
        return tuple(name for name in found if not _within(name, self.excluding))


_PURE = frozenset(
    {
        "msgspec",
        "yaml",
        "httpx",
        "rich",
        "service.db",
        "service.jobs",
        "service.usecases",
        "service.api",
        "worker",
    },
)
_ROOMS = (
    Room(
        name="estimator",
        modules=("service.estimator",),
        without=_OUTSIDE
        | _DEEP
        | _PURE
        | {"service.catalog", "service.planner", "service.base.errors", "service.runtime.settings"},
    ),
    Room(
        name="planner and calibration",
        modules=("service.planner", "service.calibration"),
        without=_OUTSIDE
        | _DEEP
        | _PURE
        | {"service.catalog", "service.base.errors", "service.runtime.settings"},
    ),
    Room(
        name="catalogue and formats",
        modules=("service.catalog", "service.formats"),
        without=_OUTSIDE
        | _DEEP
        | {
            "httpx",
            "rich",
            "service.db",
            "service.jobs",
            "service.usecases",
            "service.api",
            "worker",
        },
    ),
    Room(
        name="access",
        modules=("service.access",),
        without=_OUTSIDE
        | _DEEP
        | _PURE
        | {"service.catalog", "service.estimator", "service.runtime.settings"},
    ),
    Room(
        name="job contract",
        modules=(
            "service.jobs.artifacts",
            "service.jobs.contract",
            "service.jobs.host",
            "service.jobs.states",
            "service.jobs.codec",
            "service.base.typed",
        ),
        without=_OUTSIDE
        | _DEEP
        | {"service.db", "service.usecases", "service.jobs.notify", "worker"},
    ),
    Room(
        name="plans of probes",
        modules=("service.probing",),
        without=_OUTSIDE
        | _DEEP
        | {
            "service.db",
            "service.usecases",
            "service.jobs.notify",
            "service.runtime.settings",
            "worker",
        },
    ),
    Room(
        name="bell",
        modules=("service.jobs.notify",),
        without=_DEEP
        | {"litestar", "sqlalchemy", "alembic", "service.db", "service.usecases", "worker"},
    ),
    Room(
        name="storage",
        modules=("service.db",),
        without=_DEEP | {"litestar", "rq", "redis", "service.usecases", "service.api", "worker"},
    ),
    Room(
        name="use cases",
        modules=("service.usecases",),
        without=_DEEP | {"litestar", "service.api", "service.app", "worker"},
    ),
    Room(
        name="contract",
        modules=("service.contract",),
        without=_DEEP | {"litestar", "anyio", "service.api", "service.app", "worker"},
    ),
    Room(
        name="terminal",
        modules=("service.terminal",),
        without=_OUTSIDE
        | _DEEP
        | {"rich", "service.cli", "service.db", "service.usecases", "worker"},
    ),
    Room(
        name="web",
        modules=("service.api", "service.app", "service.web"),
        without=_DEEP | {"worker"},
    ),
    Room(
        name="telemetry, off",
        modules=("service.telemetry",),
        without=_DEEP
        | _OUTSIDE
        | {"service.api", "service.db", "service.jobs", "service.usecases", "worker"},
        excluding=("service.telemetry.otel",),
    ),
    Room(
        name="client",
        modules=("service.client",),
        without=_OUTSIDE
        | _DEEP
        | {"jinja2", "msgspec", "uvicorn", "worker", "service.access", "service.api"}
        | {
            "service.app",
            "service.catalog",
            "service.db",
            "service.base.errors",
            "service.estimator",
            "service.jobs",
        }
        | {"service.planner", "service.runtime.settings", "service.usecases"},
    ),
    Room(
        name="embedded servers",
        modules=("service.embedded",),
        without=_DEEP
        | {
            "litestar",
            "sqlalchemy",
            "rq",
            "redis",
            "service.api",
            "service.db",
            "service.jobs",
            "service.usecases",
        }
        | {"service.estimator", "worker"},
    ),
    Room(
        name="worker",
        modules=("worker",),
        without=frozenset(
            {
                "litestar",
                "torch",
                "transformers",
                "peft",
                "service.api",
                "service.app",
                "service.web",
            },
        )
        | _TRACING,
        excluding=("worker.probes",),
    ),
    Room(
        name="probes",
        modules=("worker.probes",),
        without=frozenset(
            {"litestar", "redis", "rq", "sqlalchemy", "service.api", "service.app", "service.db"}
        )
        | _TRACING
        | {"service.usecases", "service.jobs.notify"},
    ),
    Room(
        name="command line, cold",
        modules=("service.__main__",),
        without=_OUTSIDE
        | _DEEP
        | {"uvicorn", "service.app", "service.api", "service.db", "service.usecases", "worker"},
    ),
)


@pytest.mark.parametrize("room", _ROOMS, ids=lambda room: room.name)
def test_a_room_loads_nothing_that_it_may_not_know(room: Room) -> None:
    """Loading all modules of a room brings none of the rooms and libraries that the import table
    keeps from it.
    """
    loaded = _load(room.members())

    assert [name for name in loaded if _within(name, tuple(room.without))] == []


def test_the_estimator_needs_the_standard_library_alone() -> None:
    """Nothing is loaded from outside of the standard library but the estimator itself."""
    names = _modules_below("service.estimator")

    foreign = {
        name.partition(".")[0] for name in set(_load(tuple(names))) - set(_load(()))
    } - sys.stdlib_module_names

    assert foreign == {"service"}


def test_every_module_of_the_service_is_in_a_room() -> None:
    """A new folder must be put into the import table before it can be merged."""
    known = {name for room in _ROOMS for name in room.members()}
    roots = (
        "service.base.errors",
        "service.runtime.background_program",
        "service.runtime.logs",
        "service.runtime.recording_files",
        "service.runtime.settings",
        "service.cli",
        "service.__main__",
        "service.app",
        "service.telemetry.otel",
    )

    homeless = [
        name for name in _modules_below("service") if name not in known and not _within(name, roots)
    ]

    assert homeless == []


def _load(names: tuple[str, ...]) -> list[str]:
    """Return what a fresh interpreter has loaded after importing the modules in silence."""
    run = subprocess.run(
        [sys.executable, "-c", _LOAD, *names],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == "", "importing wrote to stderr"
    loaded: list[str] = json.loads(run.stdout)
    return loaded


def _modules_below(prefix: str) -> Iterator[str]:
    path = _ROOT.joinpath(*prefix.split("."))
    if path.with_suffix(".py").exists():
        yield prefix
        return
    for file in sorted(path.rglob("*.py")):
        if file.name != "__init__.py":
            yield ".".join(file.relative_to(_ROOT).with_suffix("").parts)


def _within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)
