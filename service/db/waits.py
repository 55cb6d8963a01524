"""Client-side limits of every wait for Postgres.

``statement_timeout`` is the server's own clock, and the kernel still acknowledges what is sent to
a process that stands still, so neither it nor TCP's timers end such a wait. The client's clock
does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import ceil
from time import monotonic
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen
from sqlalchemy import Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from service.base.errors import UnavailableError

PING_TIMEOUT_S = 2.0
CONNECT_TIMEOUT_S = 5
RETRY_AFTER_S = 3.0
"""How long nobody asks a server again that left one caller waiting."""

_limit: ContextVar[float | None] = ContextVar("_limit", default=None)


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that waits ``answer_timeout_s`` for each answer, then closes itself."""

    answer_timeout_s: float = 35.0

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Return what the server answers; raise psycopg's OperationalError at the limit."""
        limit = _limit.get() if timeout is None else timeout
        limit = self.answer_timeout_s if limit is None else min(limit, self.answer_timeout_s)
        ends_at = monotonic() + limit
        try:
            return super().wait(gen, interval, limit)
        except psycopg.OperationalError:
            # What it still sends would be taken for the answer to the next statement.
            if monotonic() >= ends_at:
                self.pgconn.finish()
            raise


@contextmanager
def limit_waits(seconds: float) -> Iterator[None]:
    """Shorten every wait for Postgres of this thread.

    Each ends within ``seconds``, and the server is asked even where it was silent before.
    """
    token = _limit.set(seconds)
    try:
        yield
    finally:
        _limit.reset(token)


def bound_waits(engine: Engine, *, answer_timeout_s: float) -> None:
    """Let every wait of an engine end.

    A pooled connection is asked for a sign of life before it is used, and replaced where there is
    none. Where no new one comes either, callers are refused with UnavailableError for
    ``RETRY_AFTER_S`` seconds instead of waiting one by one.
    """
    silence = _Silence()

    @event.listens_for(engine, "do_connect")
    def connect(
        _dialect: object, _record: object, arguments: list[Any], options: dict[str, Any]
    ) -> BoundedConnection:
        silence.check()
        limit = _limit.get()
        if limit is not None:
            options = options | {"connect_timeout": min(ceil(limit), CONNECT_TIMEOUT_S)}
        with silence.notice(options["connect_timeout"]):
            connection = BoundedConnection.connect(*arguments, **options)
        connection.answer_timeout_s = answer_timeout_s
        return connection

    @event.listens_for(engine, "checkout")
    def ping(connection: DBAPIConnection, _entry: ConnectionPoolEntry, _proxy: object) -> None:
        silence.check()
        limit = min(_limit.get() or PING_TIMEOUT_S, PING_TIMEOUT_S)
        try:
            with limit_waits(limit):
                engine.dialect.do_ping(connection)
        except psycopg.Error as error:
            raise DisconnectionError from error


class _Silence:
    """When a server was last silent for as long as somebody waited."""

    def __init__(self) -> None:
        self._until = 0.0

    def check(self) -> None:
        if _limit.get() is None and monotonic() < self._until:
            message = "the database did not answer a moment ago; try again"
            raise UnavailableError(message)

    @contextmanager
    def notice(self, limit: float) -> Iterator[None]:
        ends_at = monotonic() + limit
        try:
            yield
        except psycopg.OperationalError:
            if monotonic() >= ends_at:
                self._until = monotonic() + RETRY_AFTER_S
            raise
