"""Samples that a probe recorded, page by page."""

from uuid import UUID

from service.base.errors import MeasurementNotFoundError
from service.db.pages import Page, PageRequest
from service.db.queries import samples as queries
from service.db.queries.measurements import read_status
from service.db.records.measurements import StoredSample
from service.db.session import transaction
from service.usecases.stored import Sessions


def list_page(sessions: Sessions, job_id: UUID, request: PageRequest) -> Page[StoredSample]:
    """Return a page of the samples of a measurement, oldest first."""
    with transaction(sessions) as session:
        page = queries.list_samples(session, job_id, request)
        if not page.items and read_status(session, job_id) is None:
            message = f"there is no measurement {job_id}"
            raise MeasurementNotFoundError(message)
        return page
