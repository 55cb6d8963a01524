"""Tests of what happens while one transaction waits for another."""

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.db.session import transaction
from tests.waiting import eventually

_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def until_somebody_waits(sessions: sessionmaker[Session]) -> None:
    """Return as soon as a transaction on this test's database waits for a lock."""

    def somebody_waits() -> bool:
        with transaction(sessions) as session:
            return bool(session.execute(text(_WAITING)).scalar_one())

    eventually(somebody_waits)
