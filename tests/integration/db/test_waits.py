"""A Postgres that stands still keeps nobody waiting without an end."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import UnavailableError
from service.db import waits
from service.db.session import make_engine, make_sessions, transaction
from service.runtime.variables import parse_psycopg_url
from service.usecases.operations.health import check_readiness

READ_PID = text("SELECT pg_backend_pid()")


@contextmanager
def connected(
    url: str, *, answer_timeout_s: float
) -> Iterator[tuple[Engine, sessionmaker[Session]]]:
    """Give an engine of one connection, and its sessions."""
    engine = make_engine(
        parse_psycopg_url("DATABASE_URL", url),
        application_name="headroom-test",
        pool_size=1,
        answer_timeout_s=answer_timeout_s,
    )
    try:
        yield engine, make_sessions(engine)
    finally:
        engine.dispose()


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Let a server process stand still: the kernel takes what is sent to it all the same."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def silent_url() -> Iterator[str]:
    """Give the address of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"postgresql://nobody:secret@127.0.0.1:{listener.getsockname()[1]}/x"


def test_a_server_that_stops_in_a_transaction(database_url: str) -> None:
    """Its own statement_timeout stands still with it: the client's clock ends the wait."""
    with connected(database_url, answer_timeout_s=0.2) as (_, sessions):

        def ask_in_vain() -> None:
            with (
                transaction(sessions) as session,
                stopped(session.execute(READ_PID).scalar_one()),
            ):
                session.execute(text("SELECT 1"))

        with pytest.raises(UnavailableError, match="does not answer"):
            ask_in_vain()
        with transaction(sessions) as session:
            assert session.execute(text("SELECT 2")).scalar_one() == 2


def test_a_pooled_connection_whose_server_stands_still(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is replaced by one that answers."""
    monkeypatch.setattr(waits, "PING_TIMEOUT_S", 0.1)
    with connected(database_url, answer_timeout_s=35) as (_, sessions):
        with transaction(sessions) as session:
            pid = session.execute(READ_PID).scalar_one()

        with stopped(pid), transaction(sessions) as session:
            other = session.execute(READ_PID).scalar_one()

    assert other != pid


def test_callers_of_a_silent_server_do_not_queue(silent_url: str) -> None:
    """One waits for a connection; who comes next is refused at once."""
    with connected(silent_url, answer_timeout_s=35) as (engine, sessions):

        def ask() -> None:
            with transaction(sessions) as session:
                session.execute(READ_PID)

        with waits.limit_waits(0.1):
            first = check_readiness(engine, ping_redis=None)
        with pytest.raises(UnavailableError, match="a moment ago"):
            ask()

    assert first.database == "unreachable"
