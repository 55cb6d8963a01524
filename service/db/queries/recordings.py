"""Statements about recordings of configs, and the models that wait for them."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Row as ResultRow
from sqlalchemy import Select, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from service.db.records.models import ModelContent
from service.db.records.recordings import ConfigRecording, Recording
from service.db.records.stored import NewJob
from service.db.tables.core import MeasureJobRow
from service.db.tables.models import ConfigRecordingRow, ModelRevisionRow, RecordingRow
from service.jobs.states import QUEUE_LIMIT_S, Status

Row, Job = ConfigRecordingRow, MeasureJobRow
SOURCE = "recording"
_FIRST = 1
"""Weight of a recording in the queue: somebody's question waits for it."""


def insert_recording_job(
    session: Session, job_id: UUID, request: Mapping[str, object], *, device: str, new: NewJob
) -> None:
    """Store a queued recording that counts as notified now."""
    session.execute(
        insert(Job).values(
            id=job_id,
            request=request,
            source=SOURCE,
            key=new.key,
            device=device,
            priority=_FIRST,
            max_attempts=new.max_attempts,
            phase=new.phase,
            request_id=new.request_id,
            traceparent=new.traceparent,
            deadline_at=func.now() + timedelta(seconds=QUEUE_LIMIT_S),
            rung_at=func.now(),
        )
    )


def lock_config(session: Session, config_digest: str) -> None:
    """Let one transaction at a time decide about a config's recording."""
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(config_digest, 0))))


def set_job(session: Session, config_digest: str, job_id: UUID) -> None:
    """Make a job the one that records a config."""
    fresh = {"job_id": job_id, "digest": None}
    statement = upsert(Row).values(config_digest=config_digest, **fresh)
    session.execute(statement.on_conflict_do_update(index_elements=[Row.config_digest], set_=fresh))


def read_config_recording(session: Session, config_digest: str) -> ConfigRecording | None:
    """Return how far the recording of a config is."""
    query = (
        _select_progress(Row.weights, RecordingRow.packed)
        .join(RecordingRow, RecordingRow.digest == Row.digest, isouter=True)
        .where(Row.config_digest == config_digest)
    )
    row = session.execute(query).first()
    if row is None:
        return None
    recording = None if row.packed is None else Recording(digest=row.digest, packed=row.packed)
    return replace(_to_progress(row), weights=row.weights, recording=recording)


def list_progress(session: Session, digests: Collection[str]) -> dict[str, ConfigRecording]:
    """Return how far the recordings of configs are, without their documents."""
    if not digests:
        return {}
    rows = session.execute(_select_progress().where(Row.config_digest.in_(digests)))
    return {row.config_digest: _to_progress(row) for row in rows}


def _select_progress(*more: Any) -> Select[Any]:  # noqa: ANN401 - columns of any type
    columns = (
        Row.config_digest,
        Row.job_id,
        Row.transformers,
        Row.torch,
        Row.digest,
        Job.state,
        Job.progress,
        Job.phase,
        Job.device,
        Job.error,
    )
    # Columns of which some may be left out have no type of their own.
    statement: Any = select(*columns, *more)
    joined: Select[Any] = statement.join(Job, Job.id == Row.job_id)
    return joined


def _to_progress(row: ResultRow[Any]) -> ConfigRecording:
    return ConfigRecording(
        config_digest=row.config_digest,
        job_id=row.job_id,
        status=Status(row.state),
        progress=row.progress,
        phase=row.phase,
        device=row.device,
        error=row.error,
        transformers=row.transformers,
        torch=row.torch,
    )


def set_weights(
    session: Session,
    config_digest: str,
    job_id: UUID,
    *,
    weights: bytes,
    transformers: str,
    torch: str,
) -> None:
    """Store the weights of a config's model."""
    session.execute(
        update(Row)
        .where(Row.config_digest == config_digest, Row.job_id == job_id)
        .values(weights=weights, transformers=transformers, torch=torch)
    )


def fill_waiting(session: Session, config_digest: str, job_id: UUID, content: ModelContent) -> int:
    """Give every model that waits for a config its architecture.

    Returns their number; 0 where another job records the config by now.
    """
    recording = content.recording
    assert recording is not None  # noqa: S101 - the content of a recording has one
    # A model that is being stored now has seen the recording as under way.
    lock_config(session, config_digest)
    store_recording(session, recording)
    update_own = (
        update(Row)
        .where(Row.config_digest == config_digest, Row.job_id == job_id)
        .values(digest=recording.digest)
        .returning(Row.config_digest)
    )
    if session.execute(update_own).first() is None:
        return 0
    waiting = (
        update(ModelRevisionRow)
        .where(ModelRevisionRow.config_digest == config_digest)
        .values(config_digest=None, **make_content_columns(content))
        .returning(ModelRevisionRow.id)
    )
    return len(session.execute(waiting).all())


def store_recording(session: Session, recording: Recording) -> None:
    """Store a document once, whatever models are made of it."""
    session.execute(
        upsert(RecordingRow)
        .values(digest=recording.digest, packed=recording.packed)
        .on_conflict_do_nothing()
    )


def make_content_columns(content: ModelContent) -> dict[str, object]:
    """Return the columns of a revision that an architecture fills."""
    return {
        "architecture": content.architecture,
        "family": content.family,
        "fingerprint": content.fingerprint,
        "num_parameters": content.num_parameters,
        "num_active_parameters": content.num_active_parameters,
        "num_embedding_parameters": content.num_embedding_parameters,
        "parameters_by_module": content.parameters_by_module,
    }


def count_waiting(session: Session, config_digest: str) -> int:
    """Return how many revisions wait for a config's recording."""
    query = select(func.count()).where(ModelRevisionRow.config_digest == config_digest)
    return session.scalars(query).one()
