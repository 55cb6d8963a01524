"""Jobs that workers of an earlier version could not read, requeued.

Such workers know no other way. Once the last of them has gone, what they ended is queued again.
"""

from service.db.queries import queued_jobs
from service.db.queries import workers as worker_queries
from service.db.session import transaction
from service.jobs.contract import JOBS_VERSION, ProtocolError, parse_job_request
from service.jobs.states import QUEUE_LIMIT_S, Status
from service.runtime.logs import get_logger
from service.usecases.jobs.status_changes import change_status
from service.usecases.stored import Sessions

BATCH = 100
_log = get_logger(__name__)


def requeue_unreadable(sessions: Sessions, *, gone_after_s: float) -> int:
    """Queue again what this version can read; return how many jobs.

    Not before every live worker of their device leaves alone what it cannot read.
    """
    requeued = 0
    with transaction(sessions) as session:
        for row in queued_jobs.lock_unreadable(session, within_s=QUEUE_LIMIT_S, limit=BATCH):
            versions = worker_queries.list_live_job_versions(
                session, row.device, gone_after_s=gone_after_s
            )
            if versions != {JOBS_VERSION} or not _is_readable(row.request):
                continue
            # The attempt that could not read it was none.
            row.max_attempts += 1
            reason = f"worker {row.worker} was of an earlier version and could not read it"
            change_status(session, row, Status.QUEUED, error=None, reason=reason)
            _log.info("job.requeued", job_id=str(row.id), reason=reason)
            requeued += 1
    return requeued


def _is_readable(request: object) -> bool:
    try:
        parse_job_request(request)
    except ProtocolError:
        return False
    return True
