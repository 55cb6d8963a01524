"""Jobs that workers of an earlier version could not read, requeued.

Such workers know no other way. Once the last of them has gone, what they ended is queued again.
"""

from sqlalchemy.orm import Session

from service.db.queries import queued_jobs
from service.db.queries import workers as worker_queries
from service.db.session import transaction
from service.db.tables.core import MeasureJobRow
from service.jobs.contract import JOBS_VERSION, ProbeDevice, ProtocolError, parse_job_request
from service.jobs.states import QUEUE_LIMIT_S, Status
from service.runtime.logs import get_logger
from service.usecases.jobs.status_changes import change_status
from service.usecases.stored import Sessions

BATCH = 100
_log = get_logger(__name__)


def requeue_unreadable(sessions: Sessions, *, gone_after_s: float) -> int:
    """Queue again what this version can read; return how many jobs.

    Not before every live worker of their device leaves alone what it cannot read. What has to stay
    is passed over, and holds nothing up behind it.
    """
    with transaction(sessions) as session:
        devices = [
            device.value
            for device in ProbeDevice
            if worker_queries.list_live_job_versions(
                session, device.value, gone_after_s=gone_after_s
            )
            == {JOBS_VERSION}
        ]
    requeued, after = 0, None
    while devices:
        with transaction(sessions) as session:
            rows = queued_jobs.lock_unreadable(
                session, devices=devices, within_s=QUEUE_LIMIT_S, after=after, limit=BATCH
            )
            if rows:
                after = rows[-1].finished_at, rows[-1].id
            requeued += sum(_requeue(session, row) for row in rows)
        if len(rows) < BATCH:
            break
    return requeued


def _requeue(session: Session, row: MeasureJobRow) -> bool:
    """Queue a job again, unless this version cannot read it either."""
    if not _is_readable(row.request):
        return False
    # The attempt that could not read it was none.
    row.max_attempts += 1
    row.is_pruned = False
    reason = f"worker {row.worker} was of an earlier version and could not read it"
    change_status(session, row, Status.QUEUED, error=None, reason=reason)
    _log.info("job.requeued", job_id=str(row.id), reason=reason)
    return True


def _is_readable(request: object) -> bool:
    try:
        parse_job_request(request)
    except ProtocolError:
        return False
    return True
