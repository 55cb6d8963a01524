"""Reconcile loop that loses no job.

Jobs of dead workers go back to the queue, overdue jobs end, and workers are notified again of jobs
that nobody took.

Any number of these loops may run: rows are taken with ``SKIP LOCKED``, and a notification too many
is harmless.
"""

import threading
import time
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy.orm import Session

from service.base.errors import ServiceError
from service.db.queries import attempts as queries
from service.db.queries import queued_jobs
from service.db.session import transaction
from service.db.tables.core import MeasureJobRow
from service.jobs.contract import JobPayload, ProbeDevice
from service.jobs.notify import Notify
from service.jobs.states import QUEUE_LIMIT_S, Status
from service.runtime.logs import get_logger
from service.runtime.settings import Settings
from service.telemetry.spans import span
from service.usecases.clusters.reservations import forget_ended
from service.usecases.idempotency import forget_expired
from service.usecases.jobs.status_changes import change_status, end_lost_attempt, make_problem
from service.usecases.jobs.unreadable import requeue_unreadable
from service.usecases.jobs.waiting import update_waiting_phases
from service.usecases.jobs.workers import forget_old
from service.usecases.operations.retention import prune
from service.usecases.stored import Sessions

BATCH = 100
HOUSEKEEPING_INTERVAL_S = 300.0
PRUNE_S = 5.0
"""Of which old data is deleted; what is left then has its turn at the next."""
_QUEUE_LIMIT_DAYS = QUEUE_LIMIT_S / (24 * 3600)

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileResult:
    """Numbers of jobs that one pass requeued, ended and notified of."""

    requeued: int
    ended: int
    notified: int


def reconcile(
    sessions: Sessions, *, rering_after_s: float, gone_after_s: float, notify: Notify
) -> ReconcileResult:
    """Make one pass over expired, overdue and waiting jobs.

    A worker without a heartbeat for ``gone_after_s`` seconds serves nobody.
    """
    requeued, ended = _reclaim_expired(sessions, notify)
    ended += _end_overdue(sessions)
    requeued += requeue_unreadable(sessions, gone_after_s=gone_after_s)
    notified = _notify_again(sessions, rering_after_s=rering_after_s, notify=notify)
    update_waiting_phases(sessions, gone_after_s=gone_after_s)
    result = ReconcileResult(requeued=requeued, ended=ended, notified=notified)
    if requeued or ended:
        _log.info("jobs.reconciled", requeued=requeued, ended=ended, rung=notified)
    return result


def run_forever(
    sessions: Sessions,
    *,
    settings: Settings,
    notify: Notify,
    stop: threading.Event,
    keep: timedelta | None = None,
) -> None:
    """Make passes until ``stop``.

    A database that is away is waited for. What grows is kept for ``keep``, else for ever.
    """
    passes_between_cleaning = max(1, round(HOUSEKEEPING_INTERVAL_S / settings.reconcile_interval_s))
    passes = 0
    while not stop.is_set():
        try:
            reconcile(
                sessions,
                rering_after_s=settings.rering_after_s,
                gone_after_s=settings.lease_s,
                notify=notify,
            )
            if passes % passes_between_cleaning == 0:
                forget_expired(sessions)
                forget_ended(sessions)
                forget_old(sessions)
                if keep is not None:
                    _prune_for_a_while(sessions, keep, stop)
            passes += 1
        except ServiceError as error:
            _log.warning("reconcile.waits", reason=error.detail)
        stop.wait(settings.reconcile_interval_s)


def _prune_for_a_while(sessions: Sessions, keep: timedelta, stop: threading.Event) -> None:
    """Delete what is older, for so long that no lost lease waits."""
    end = time.monotonic() + PRUNE_S
    prune(
        sessions,
        older_than=keep,
        is_over=lambda: stop.is_set() or time.monotonic() > end,
    )


def _reclaim_expired(sessions: Sessions, notify: Notify) -> tuple[int, int]:
    with transaction(sessions) as session:
        rows = queries.lock_expired(session, limit=BATCH)
        moved = [(row, _reclaim(session, row)) for row in rows]
        waiting = [
            (row.device, row.id, row.attempt) for row, status in moved if status is Status.QUEUED
        ]
    for device, job_id, attempt in waiting:
        notify(ProbeDevice(device), JobPayload(job_id=job_id, attempt=attempt))
    return len(waiting), len(moved) - len(waiting)


def _reclaim(session: Session, row: MeasureJobRow) -> Status:
    row.lost_leases += 1
    with span(
        "measurement.take_back", parent=row.traceparent, job_id=str(row.id), attempt=row.attempt
    ):
        status = end_lost_attempt(
            session, row, reason=f"worker {row.worker} did not renew its lease"
        )
    _log.warning("lease.lost", **_get_ids(row), worker=row.worker, status=status.value)
    return status


def _get_ids(row: MeasureJobRow) -> dict[str, object]:
    return {"job_id": str(row.id), "attempt": row.attempt, "request_id": row.request_id}


def _end_overdue(sessions: Sessions) -> int:
    with transaction(sessions) as session:
        rows = queued_jobs.lock_overdue(session, limit=BATCH)
        for row in rows:
            detail = (
                f"no worker took it in {_QUEUE_LIMIT_DAYS:.0f} days; is one running for device "
                f"{row.device!r}?"
            )
            error = make_problem("deadline-exceeded", "The measurement waited too long", detail)
            change_status(session, row, Status.FAILED, error=error, reason=detail)
            _log.warning("job.overdue", **_get_ids(row), device=row.device)
    return len(rows)


def _notify_again(sessions: Sessions, *, rering_after_s: float, notify: Notify) -> int:
    with transaction(sessions) as session:
        waiting = queued_jobs.mark_unnotified(session, after_s=rering_after_s, limit=BATCH)
    for job in waiting:
        notify(ProbeDevice(job.device), JobPayload(job_id=job.job_id, attempt=job.attempt))
    return len(waiting)
