"""Workers as users see them, with devices and current jobs."""

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from service.db.queries import workers as queries
from service.db.session import transaction
from service.usecases.stored import Sessions

MAX_LISTED = 1000
FORGET_AFTER_S = 24 * 3600.0


class WorkerState(StrEnum):
    """State of a worker.

    ``gone`` is never stored: it follows from an old heartbeat.
    """

    IDLE = "idle"
    BUSY = "busy"
    STOPPED = "stopped"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """Description that a worker gives when it starts."""

    name: str
    host: str
    pid: int
    devices: list[dict[str, Any]]
    versions: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSummary:
    """A worker as the list shows it."""

    name: str
    host: str
    pid: int
    devices: list[dict[str, Any]]
    versions: dict[str, Any]
    state: WorkerState
    current_job_id: uuid.UUID | None
    last_heartbeat: datetime
    started_at: datetime
    heartbeat_age_s: float = 0.0
    observed: Mapping[str, Any] | None = None
    """Memory in use on its GPU when it was last idle; None where it has none, or never looked."""


def register(sessions: Sessions, info: WorkerInfo) -> None:
    """Store a worker as idle."""
    with transaction(sessions) as session:
        queries.upsert_worker(
            session, {**asdict(info), "state": WorkerState.IDLE.value, "current_job_id": None}
        )


def record_heartbeat(
    sessions: Sessions,
    info: WorkerInfo,
    *,
    is_busy: bool,
    observed: Mapping[str, int] | None = None,
) -> None:
    """Store a worker's heartbeat and its observation of the GPU.

    Its row names the job that is running under its name.
    """
    with transaction(sessions) as session:
        job_id = queries.find_running_job(session, info.name) if is_busy else None
        state = WorkerState.BUSY if is_busy else WorkerState.IDLE
        if not queries.record_heartbeat(
            session, info.name, state=state.value, job_id=job_id, observed=observed
        ):
            queries.upsert_worker(
                session, {**asdict(info), "state": state.value, "current_job_id": job_id}
            )


def mark_stopped(sessions: Sessions, name: str) -> None:
    """Store a worker as stopped."""
    with transaction(sessions) as session:
        queries.record_heartbeat(session, name, state=WorkerState.STOPPED.value, job_id=None)


def forget_old(sessions: Sessions) -> None:
    """Delete workers without a heartbeat for a day."""
    with transaction(sessions) as session:
        queries.prune(session, older_than_s=FORGET_AFTER_S)


def list_workers(sessions: Sessions, *, gone_after_s: float) -> list[WorkerSummary]:
    """Return the workers of the last day, latest heartbeat first.

    One without a heartbeat for a lease is gone.
    """
    with transaction(sessions) as session:
        rows = queries.list_workers(session, gone_after_s=gone_after_s, limit=MAX_LISTED)
    return [
        WorkerSummary(
            name=row.name,
            host=row.host,
            pid=row.pid,
            devices=row.devices,
            versions=row.versions,
            state=_resolve_state(row.state, is_gone=is_gone),
            # What a worker that is gone was running is the reconcile loop's to give to another.
            current_job_id=None if is_gone else row.current_job_id,
            last_heartbeat=row.last_heartbeat,
            started_at=row.started_at,
            heartbeat_age_s=age_s,
            observed=row.observed,
        )
        for row, is_gone, age_s in rows
    ]


def _resolve_state(stored: str, *, is_gone: bool) -> WorkerState:
    state = WorkerState(stored)
    return WorkerState.GONE if is_gone and state is not WorkerState.STOPPED else state
