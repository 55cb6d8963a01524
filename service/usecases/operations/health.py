"""Whether this process has what it needs: a database at its schema or a later one; Redis only makes things faster."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.db.migrate import is_served


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """``database``: ``ok``, ``unreachable``, ``not_migrated``; ``redis``: ``ok``, ``unreachable``, ``not_configured``."""

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


def check(engine: Engine, *, ping_redis: Callable[[], bool] | None) -> Readiness:
    """Ask the database and, where there is one, Redis."""
    return Readiness(database=_database(engine), redis=_redis(ping_redis))


def _database(engine: Engine) -> str:
    try:
        return "ok" if is_served(engine) else "not_migrated"
    except SQLAlchemyError:
        return "unreachable"


def _redis(ping: Callable[[], bool] | None) -> str:
    if ping is None:
        return "not_configured"
    return "ok" if ping() else "unreachable"
