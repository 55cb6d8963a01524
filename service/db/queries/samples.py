"""Statements about samples that probes recorded."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.db.pages import Page, PageRequest, make_page_by_numbers, paginate_by_numbers
from service.db.records.measurements import StoredSample
from service.db.tables.core import MeasurementSampleRow

Sample = MeasurementSampleRow


def list_samples(session: Session, job_id: UUID, request: PageRequest) -> Page[StoredSample]:
    """Return a page of a job's samples.

    They come attempt by attempt, in the order in which they were read.
    """
    list_name = f"samples:{job_id}"
    query = select(Sample).where(Sample.job_id == job_id)
    statement = paginate_by_numbers(
        query, request, list_name=list_name, columns=(Sample.attempt, Sample.seq)
    )
    return make_page_by_numbers(
        session.scalars(statement).all(),
        request,
        list_name=list_name,
        numbers=lambda row: (row.attempt, row.seq),
        value=lambda row: StoredSample(
            attempt=row.attempt, seq=row.seq, t_s=row.t_s, kind=row.kind, bytes=row.bytes
        ),
    )
