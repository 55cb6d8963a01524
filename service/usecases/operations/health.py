"""Readiness of this process: database schema and Redis.

The database must be at this version's schema or a later one; Redis only makes things faster.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.db.migrate import is_compatible
from service.db.waits import limit_waits

PROBE_TIMEOUT_S = 1.5
"""Two waits of a probe, a ping and a connection, end before an orchestrator's probe does (4 s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """State of the database and of Redis.

    ``database`` is ``ok``, ``unreachable`` or ``not_migrated``; ``redis`` is ``ok``,
    ``unreachable`` or ``not_configured``.
    """

    database: str
    redis: str

    @property
    def is_ready(self) -> bool:
        """Whether requests can be answered."""
        return self.database == "ok"

    @property
    def status(self) -> str:
        """The answer in one word."""
        if not self.is_ready:
            return "not_ready"
        return "degraded" if self.redis == "unreachable" else "ready"


def check_readiness(engine: Engine, *, ping_redis: Callable[[], bool] | None) -> Readiness:
    """Check the database and, where there is one, Redis."""
    return Readiness(database=_check_database(engine), redis=_check_redis(ping_redis))


def _check_database(engine: Engine) -> str:
    try:
        with limit_waits(PROBE_TIMEOUT_S):
            return "ok" if is_compatible(engine) else "not_migrated"
    except SQLAlchemyError:
        return "unreachable"


def _check_redis(ping: Callable[[], bool] | None) -> str:
    if ping is None:
        return "not_configured"
    return "ok" if ping() else "unreachable"
