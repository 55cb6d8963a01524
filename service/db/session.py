"""Engines and sessions: psycopg 3, a small pool, UTC.

No wait is without an end.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from psycopg import errors
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, InvalidRequestError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session, configure_mappers, sessionmaker

from service.base.errors import NotMigratedError, UnavailableError
from service.db.changes import write_change
from service.db.waits import CONNECT_TIMEOUT_S, bound_waits

POOL_TIMEOUT_S = 10
STATEMENT_TIMEOUT_S = 30
ANSWER_TIMEOUT_S = 35
"""When a client gives up by its own clock: after the server would have."""
IDLE_IN_TRANSACTION_TIMEOUT_S = 60
_NO_ANSWER = "the database does not answer; try again"
_PINGS_FAILED = "This connection is closed"
"""What a pool says whose pings failed twice (SQLAlchemy 2.0 pool/base.py, ``_checkout``)."""

# Postgres refuses NaN in JSON; refusing it here names the place that made it.
_dump_json = partial(json.dumps, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def make_engine(
    database_url: str,
    *,
    application_name: str,
    pool_size: int = 8,
    pool_timeout_s: float = POOL_TIMEOUT_S,
    idle_in_transaction_timeout_s: int = IDLE_IN_TRANSACTION_TIMEOUT_S,
    answer_timeout_s: float = ANSWER_TIMEOUT_S,
) -> Engine:
    """Return an engine that connects on first use.

    Past ``pool_size`` connections a thread waits its turn. No wait is longer than
    ``answer_timeout_s`` seconds, whatever the server does.
    """
    engine = create_engine(
        make_url(database_url),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=pool_timeout_s,
        json_serializer=_dump_json,
        connect_args={
            "application_name": application_name,
            "connect_timeout": CONNECT_TIMEOUT_S,
            # A peer that vanished without a word is noticed within half a minute.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 30_000,
            "options": (
                f"-c timezone=UTC -c statement_timeout={STATEMENT_TIMEOUT_S}s "
                f"-c idle_in_transaction_session_timeout={idle_in_transaction_timeout_s}s"
            ),
        },
    )
    bound_waits(engine, answer_timeout_s=answer_timeout_s)
    return engine


def make_sessions(engine: Engine) -> sessionmaker[Session]:
    """Return the session factory that use cases take.

    Rows stay readable after their commit.
    """
    # A signal that raises while SQLAlchemy maps the tables on first use would leave them unusable
    # for the whole process.
    configure_mappers()
    return sessionmaker(engine, expire_on_commit=False)


@contextmanager
def transaction(sessions: sessionmaker[Session]) -> Iterator[Session]:
    """Own one transaction.

    Commit at the end of the block, with the row of the change that is followed (`follow_change`),
    roll back on any error, and raise the service's own errors for a
    database that is away or not migrated.
    """
    try:
        with sessions.begin() as session:
            yield session
            change = write_change(session)
        if change is not None:
            change.is_stored = True
    except PoolTimeoutError as error:
        message = "all database connections of this process are busy; try again"
        raise UnavailableError(message) from error
    except DBAPIError as error:
        if isinstance(error.orig, errors.UndefinedTable | errors.UndefinedColumn):
            message = "the database is not at the schema of this version; run `headroom migrate`"
            raise NotMigratedError(message) from error
        if isinstance(error.orig, errors.DiskFull):
            message = "the database's disk is full, and nothing was stored; make room there"
            raise UnavailableError(message) from error
        # Of a connection that is being made SQLAlchemy does not say that it is invalid.
        is_given_up = isinstance(error.orig, errors.IdleInTransactionSessionTimeout)
        if isinstance(error, OperationalError) or error.connection_invalidated or is_given_up:
            raise UnavailableError(_NO_ANSWER) from error
        raise
    except InvalidRequestError as error:
        if str(error) != _PINGS_FAILED:
            raise
        raise UnavailableError(_NO_ANSWER) from error
