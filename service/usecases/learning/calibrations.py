"""What measurements taught, as stored values."""

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy.orm import Session, sessionmaker

from service.db.pages import Page, PageRequest
from service.db.queries import calibrations as queries
from service.db.records.stored import StoredCalibration
from service.db.session import transaction


def list_page(sessions: sessionmaker[Session], request: PageRequest, *, key: str | None = None) -> Page[StoredCalibration]:
    """Return a page of calibrations, newest first; of one key when it is given."""
    with transaction(sessions) as session:
        return queries.page_of_calibrations(session, request, key=key)


def latest_by_keys(
    sessions: sessionmaker[Session], keys: Collection[str], *, quantity: str = "allocated"
) -> Mapping[str, StoredCalibration]:
    """Return the calibration of ``quantity`` that holds for each key; a key that nobody measured is absent."""
    if not keys:
        return {}
    with transaction(sessions) as session:
        return {found.key: found for found in queries.latest_calibrations(session, keys) if found.quantity == quantity}


def changed_since(sessions: sessionmaker[Session], since: datetime | None) -> tuple[StoredCalibration, ...]:
    """Return what holds for every key that may have changed after ``since`` (``None``: for every key): food for a cache."""
    with transaction(sessions) as session:
        return queries.calibrations_since(session, since)
