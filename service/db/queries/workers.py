"""Statements about workers.

Each worker writes its own row, and a row whose heartbeat is old speaks for nobody.
"""

import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.db.tables.core import MeasureJobRow
from service.db.tables.workers import WorkerRow
from service.jobs.contract import JOBS
from service.jobs.states import Status


def upsert_worker(session: Session, values: dict[str, Any]) -> None:
    """Insert or update a worker's row.

    A worker that was pruned while it could not reach the database comes back.
    """
    session.execute(
        insert(WorkerRow)
        .values(**values)
        .on_conflict_do_update(
            index_elements=[WorkerRow.name], set_={**values, "last_heartbeat": func.now()}
        ),
    )


def record_heartbeat(
    session: Session,
    name: str,
    *,
    state: str,
    job_id: uuid.UUID | None,
    observed: Mapping[str, int] | None = None,
) -> bool:
    """Store a heartbeat, state and observation; return False without a row.

    ``observed`` is stored where the worker looked at its GPU.
    """
    values: dict[str, object] = {
        "state": state,
        "current_job_id": job_id,
        "last_heartbeat": func.now(),
    }
    if observed is not None:
        values["observed"] = dict(observed)
    statement = (
        update(WorkerRow).where(WorkerRow.name == name).values(**values).returning(WorkerRow.name)
    )
    return session.execute(statement).first() is not None


def has_live_worker(
    session: Session, device: str, *, gpu: str | None = None, gone_after_s: float
) -> bool:
    """Return whether a live worker of ``device`` exists.

    It is not stopped, and has a heartbeat in the last ``gone_after_s`` seconds; with ``gpu`` it has
    that one.
    """
    alive = select(WorkerRow.name).where(*_is_live(device, gone_after_s, gpu=gpu))
    return bool(session.scalar(select(alive.exists())))


def list_live_releases(
    session: Session, device: str, *, gone_after_s: float
) -> set[tuple[str | None, str | None]]:
    """Return the releases that live workers of ``device`` have."""
    columns = [WorkerRow.versions[name].as_string() for name in ("transformers", "torch")]
    alive: Select[Any] = select(*columns).where(*_is_live(device, gone_after_s))
    return {(transformers, torch) for transformers, torch in session.execute(alive)}


def list_live_job_versions(
    session: Session, device: str, *, gone_after_s: float
) -> set[str | None]:
    """Return the versions of jobs that live workers of ``device`` name."""
    version = WorkerRow.versions[JOBS].as_string()
    return set(session.scalars(select(version).where(*_is_live(device, gone_after_s))))


def list_workers(
    session: Session, *, gone_after_s: float, limit: int
) -> Sequence[tuple[WorkerRow, bool, float]]:
    """Return workers with heartbeat age, latest heartbeat first.

    Each has whether its heartbeat is older than ``gone_after_s``, and its age in seconds.
    """
    is_gone = WorkerRow.last_heartbeat < func.now() - timedelta(seconds=gone_after_s)
    age_s = func.extract("epoch", func.now() - WorkerRow.last_heartbeat)
    query = (
        select(WorkerRow, is_gone, age_s)
        .order_by(WorkerRow.last_heartbeat.desc(), WorkerRow.name)
        .limit(limit)
    )
    return [(row, bool(gone), max(0.0, float(age))) for row, gone, age in session.execute(query)]


def prune(session: Session, *, older_than_s: float) -> None:
    """Delete workers without a heartbeat for ``older_than_s`` seconds."""
    session.execute(
        delete(WorkerRow).where(
            WorkerRow.last_heartbeat < func.now() - timedelta(seconds=older_than_s)
        ),
    )


def find_running_job(session: Session, name: str) -> uuid.UUID | None:
    """Return the job that a worker is running."""
    query = (
        select(MeasureJobRow.id)
        .where(MeasureJobRow.worker == name, MeasureJobRow.state == Status.RUNNING)
        .limit(1)
    )
    return session.scalar(query)


def _is_live(
    device: str, gone_after_s: float, *, gpu: str | None = None
) -> tuple[ColumnElement[bool], ...]:
    described = {"device": device} if gpu is None else {"device": device, "sku": gpu}
    return (
        WorkerRow.state != "stopped",
        WorkerRow.last_heartbeat >= func.now() - timedelta(seconds=gone_after_s),
        WorkerRow.devices.contains([described]),
    )
