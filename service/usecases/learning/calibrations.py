"""Stored calibrations."""

from datetime import datetime

from sqlalchemy.orm import Session, sessionmaker

from service.db.pages import Page, PageRequest
from service.db.queries import calibrations as queries
from service.db.records.stored import StoredCalibration
from service.db.session import transaction


def list_page(
    sessions: sessionmaker[Session], request: PageRequest, *, key: str | None = None
) -> Page[StoredCalibration]:
    """Return a page of calibrations, newest first.

    With ``key``, only calibrations of that key.
    """
    with transaction(sessions) as session:
        return queries.list_calibrations(session, request, key=key)


def list_changed_since(
    sessions: sessionmaker[Session], since: datetime | None
) -> tuple[StoredCalibration, ...]:
    """Return current calibrations of keys changed after ``since``.

    ``None`` means every key. A cache is refreshed with it; a key may be there though it did not
    change.
    """
    with transaction(sessions) as session:
        return queries.list_calibrations_since(session, since)
