"""Waits for a transaction that is blocked by another one."""

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.db.session import transaction
from tests.waiting import eventually

_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type "
    "= 'Lock'"
)


def wait_for_blocked_transaction(sessions: sessionmaker[Session]) -> None:
    """Wait until a transaction on this test's database waits for a lock."""

    def is_blocked() -> bool:
        with transaction(sessions) as session:
            return bool(session.execute(text(_WAITING)).scalar_one())

    eventually(is_blocked)
