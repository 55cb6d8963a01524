"""How many jobs of a database are in each state."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from service.db.session import transaction
from service.db.tables.core import MeasureJobRow
from service.jobs.states import Status


def count_by_status(sessions: sessionmaker[Session]) -> dict[Status, int]:
    """Count jobs by status; statuses without jobs are absent."""
    query = select(MeasureJobRow.state, func.count()).group_by(MeasureJobRow.state)
    with transaction(sessions) as session:
        return {Status(state): number for state, number in session.execute(query)}
