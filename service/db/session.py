"""Engines and sessions: psycopg 3, a small pool, UTC, and no wait without an end."""

import json
from functools import partial

from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session, sessionmaker

CONNECT_TIMEOUT_S = 5
POOL_TIMEOUT_S = 10
STATEMENT_TIMEOUT_S = 30
IDLE_IN_TRANSACTION_TIMEOUT_S = 60

# Postgres refuses NaN in JSON; refusing it here names the place that made it.
_dump_json = partial(json.dumps, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def make_engine(database_url: str, *, application_name: str, pool_size: int = 8) -> Engine:
    """Return an engine that connects when it is first used; past ``pool_size`` connections a thread waits."""
    return create_engine(
        make_url(database_url),
        pool_size=pool_size,
        max_overflow=0,
        pool_pre_ping=True,
        pool_timeout=POOL_TIMEOUT_S,
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
                f"-c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_TIMEOUT_S}s"
            ),
        },
    )


def make_sessions(engine: Engine) -> sessionmaker[Session]:
    """Return the session factory that use cases take; rows stay readable after their commit."""
    return sessionmaker(engine, expire_on_commit=False)
