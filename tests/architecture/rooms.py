"""Rooms: modules loaded together, and those kept from them."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.architecture.modules import ROOT

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
        found = (name for prefix in self.modules for name in list_modules_below(prefix))
        return tuple(name for name in found if not is_within(name, self.excluding))


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
ROOMS = (
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
            "service.jobs.readings",
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
        name="notifier",
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
        modules=("service.api", "service.app", "service.mcp", "service.web"),
        without=_DEEP | {"worker"},
    ),
    Room(
        name="controller for Kueue",
        modules=("service.kueue",),
        without=_DEEP
        | {"alembic", "litestar", "psycopg", "redis", "rq", "sqlalchemy", "worker"}
        | {"service.api", "service.app", "service.cli", "service.contract", "service.db"},
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


def list_modules_below(prefix: str) -> Iterator[str]:
    """Yield a module, or all modules below a package."""
    path = ROOT.joinpath(*prefix.split("."))
    if path.with_suffix(".py").exists():
        yield prefix
        return
    for file in sorted(path.rglob("*.py")):
        if file.name != "__init__.py":
            yield ".".join(file.relative_to(ROOT).with_suffix("").parts)


def is_within(name: str, prefixes: tuple[str, ...]) -> bool:
    """Return whether a module is one of the prefixes or lies below it."""
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)
