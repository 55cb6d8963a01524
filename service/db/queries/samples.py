"""What was read while a probe ran, as users ask for it."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.db.pages import Page, PageRequest, after_numbers, page_of_numbered
from service.db.records.measurements import StoredSample
from service.db.tables.core import MeasurementSampleRow

Sample = MeasurementSampleRow


def page_of_samples(session: Session, job_id: UUID, request: PageRequest) -> Page[StoredSample]:
    """Return a page of the samples of a job, attempt by attempt, in the order in which they were read."""
    list_name = f"samples:{job_id}"
    mine = select(Sample).where(Sample.job_id == job_id)
    statement = after_numbers(mine, request, list_name=list_name, columns=(Sample.attempt, Sample.seq))
    return page_of_numbered(
        session.scalars(statement).all(),
        request,
        list_name=list_name,
        numbers=lambda row: (row.attempt, row.seq),
        value=lambda row: StoredSample(attempt=row.attempt, seq=row.seq, t_s=row.t_s, kind=row.kind, bytes=row.bytes),
    )
