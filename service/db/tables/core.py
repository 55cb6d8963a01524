"""Tables of measurements and calibrations.

Constraints say which rows can exist at all. Times are the database's, bytes are integers.
"""

import uuid
from datetime import datetime

from sqlalchemy import (
    CheckConstraint,
    Computed,
    ForeignKey,
    Index,
    Integer,
    SmallInteger,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from service.db.tables.access import ApiKeyRow
from service.db.tables.artifacts import ArtifactRow
from service.db.tables.base import Base, Json, make_membership_condition
from service.db.tables.claims import ClaimRow
from service.db.tables.clusters import ReservationRow
from service.db.tables.hooks import HookDecisionRow, HookQuestionRow
from service.db.tables.idempotency import IdempotencyRow
from service.db.tables.learning import QUANTITIES, ResidualRow
from service.db.tables.models import ConfigRecordingRow, ModelRow
from service.db.tables.types import StorableJSON
from service.db.tables.workers import WorkerRow
from service.jobs.contract import ProbeDevice
from service.jobs.states import Status

EVENT_KINDS = ("status", "plan", "progress", "sample")
SOURCES = ("probe", "import", "recording")

SCHEMA = Base.metadata
_IMPORTED_TABLES = (
    ApiKeyRow,
    ArtifactRow,
    ClaimRow,
    ConfigRecordingRow,
    HookDecisionRow,
    HookQuestionRow,
    IdempotencyRow,
    ModelRow,
    ReservationRow,
    ResidualRow,
    WorkerRow,
)
"""Tables of other modules; importing these is what declares them."""


class MeasureJobRow(Base):
    """A measurement job.

    This row is the job, and ``attempt`` its fencing token.
    """

    __tablename__ = "measurements"
    __table_args__ = (
        CheckConstraint(make_membership_condition("state", Status), name="state"),
        CheckConstraint(make_membership_condition("device", ProbeDevice), name="device"),
        CheckConstraint("attempt >= 0 AND max_attempts >= 1", name="attempts"),
        CheckConstraint("progress >= 0 AND progress <= 1", name="progress"),
        CheckConstraint(
            "(state = 'running') = (lease_until IS NOT NULL)", name="only_running_has_a_lease"
        ),
        CheckConstraint(
            f"({make_membership_condition('state', (status for status in Status if status.is_terminal))}) "  # noqa: E501
            "= (finished_at IS NOT NULL)",
            name="only_terminal_is_finished",
        ),
        CheckConstraint(
            "(state = 'failed') = (error IS NOT NULL)", name="only_failed_has_an_error"
        ),
        Index(None, "created_at", "id"),
        CheckConstraint(make_membership_condition("source", SOURCES), name="source"),
        CheckConstraint(
            "(source = 'import') = (import_hash IS NOT NULL)", name="only_imports_have_a_hash"
        ),
        UniqueConstraint("import_hash"),
        Index(None, "model_name", "created_at"),
        Index(None, "gpu", "created_at", "id"),
        Index(None, "family", "created_at", "id"),
        Index(None, "source", "created_at", "id"),
        Index(None, "key", "created_at"),
        # What an idle worker asks for, what the reconcile loop rings again, and what it takes back.
        Index(
            "ix_measurements_queued",
            "device",
            text("priority DESC"),
            "created_at",
            postgresql_where=text("state = 'queued'"),
        ),
        # What a worker of an earlier version ended because it could not read it.
        Index(
            "ix_measurements_unreadable",
            "finished_at",
            postgresql_where=text("state = 'failed' AND (error ->> 'type') = 'unreadable-request'"),
        ),
        # Ended ones whose progress, samples and files may be there still.
        Index(
            "ix_measurements_unpruned",
            "finished_at",
            postgresql_where=text("finished_at IS NOT NULL AND NOT is_pruned"),
        ),
        # What a key asked for lately: its quota is counted from it.
        Index(
            "ix_measurements_asked",
            "created_by_key",
            "created_at",
            postgresql_where=text("created_by_key IS NOT NULL AND source = 'probe'"),
        ),
        Index("ix_measurements_running", "lease_until", postgresql_where=text("state = 'running'")),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    state: Mapped[str] = mapped_column(default="queued", server_default="queued")
    attempt: Mapped[int] = mapped_column(Integer, default=0, server_default="0")
    max_attempts: Mapped[int] = mapped_column(Integer, default=3, server_default="3")
    priority: Mapped[int] = mapped_column(SmallInteger, default=0, server_default="0")
    """Higher goes first; 0 is normal."""
    source: Mapped[str] = mapped_column(default="probe", server_default="probe")
    import_hash: Mapped[str | None]
    """Of an import: what was read, of which job, for which question; the same is not stored twice.
    """
    device: Mapped[str]
    gpu: Mapped[str | None]
    model_name: Mapped[str | None]
    model_revision: Mapped[int | None] = mapped_column(Integer)
    request: Mapped[Json]
    """Everything the probe needs, with the model resolved: a later change of the stored model does
    not reach the job.
    """
    family: Mapped[str | None] = mapped_column(
        Computed("request #>> '{model,architecture,family}'::text[]", persisted=True)
    )
    task: Mapped[str | None] = mapped_column(
        Computed("request #>> '{task,task}'::text[]", persisted=True)
    )
    key: Mapped[str]
    """The calibration key: what the measurement may teach the estimator about."""
    lost_leases: Mapped[int] = mapped_column(Integer, default=0, server_default="0")
    """Attempts that ended because their worker was not heard of."""
    cancel_requested: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    lease_until: Mapped[datetime | None]
    deadline_at: Mapped[datetime]
    rung_at: Mapped[datetime | None]
    progress: Mapped[float] = mapped_column(default=0.0, server_default="0")
    phase: Mapped[str] = mapped_column(default="queued", server_default="queued")
    worker: Mapped[str | None]
    last_event: Mapped[int] = mapped_column(default=0, server_default="0")
    """The ``seq`` of the newest event; adding one to it is what hands out the next."""
    error: Mapped[Json | None] = mapped_column(StorableJSON(none_as_null=True))
    """A problem document."""
    request_id: Mapped[str | None]
    """Of the request that asked for it, as in the log of the API."""
    traceparent: Mapped[str | None]
    """The span that asked for it (W3C Trace Context): what a worker does is told beneath it."""
    created_by: Mapped[str | None]
    """Name of the key that asked for it; null where that was Headroom itself, or before owners."""
    created_by_key: Mapped[str | None]
    """Id of that key, or the subject of a token; null where nobody needed one."""
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    is_pruned: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    """Whether its progress, samples and files were deleted."""


class MeasurementResultRow(Base):
    """Result of a measurement: at most one per job."""

    __tablename__ = "measurement_results"
    __table_args__ = (Index(None, "absolute_error", "job_id"),)

    job_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("measurements.id", ondelete="CASCADE"), primary_key=True
    )
    attempt: Mapped[int] = mapped_column(Integer)
    environment: Mapped[Json]
    peaks: Mapped[Json]
    instants: Mapped[list[Json]]
    probes: Mapped[list[Json]]
    step_time: Mapped[Json | None] = mapped_column(StorableJSON(none_as_null=True))
    prediction: Mapped[Json | None] = mapped_column(StorableJSON(none_as_null=True))
    absolute_error: Mapped[float | None] = mapped_column(
        Computed(
            "abs(COALESCE(prediction ->> 'error'::text, prediction #>> '{quantities,0,error}'::text[])::double precision)",  # noqa: E501
            persisted=True,
        ),
    )
    """Of the prediction of allocated bytes, or of what was measured in their place; whatever its
    sign.
    """
    readings: Mapped[list[Json]] = mapped_column(default=list, server_default=text("'[]'"))
    """Of an import: every number of the file that it rests on."""
    extrapolated: Mapped[bool]
    transferable: Mapped[bool] = mapped_column(default=True, server_default=text("true"))
    steady_bytes: Mapped[int | None]
    notes: Mapped[list[str]] = mapped_column(default=list, server_default=text("'[]'"))
    calibration_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("calibrations.id"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class MeasurementEventRow(Base):
    """One line of a job's event stream; ``seq`` is what ``Last-Event-ID`` names."""

    __tablename__ = "measurement_events"
    __table_args__ = (
        CheckConstraint(make_membership_condition("kind", EVENT_KINDS), name="kind"),
        CheckConstraint("seq >= 1", name="seq"),
    )

    job_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("measurements.id", ondelete="CASCADE"), primary_key=True
    )
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    kind: Mapped[str]
    data: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class MeasurementSampleRow(Base):
    """One counter reading of an attempt.

    ``t_s`` is in seconds after its probe began.
    """

    __tablename__ = "measurement_samples"
    __table_args__ = (CheckConstraint("bytes >= 0", name="bytes"),)

    job_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("measurements.id", ondelete="CASCADE"), primary_key=True
    )
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    t_s: Mapped[float]
    kind: Mapped[str]
    bytes: Mapped[int]


class CalibrationRow(Base):
    """Calibration of one key and quantity.

    The newest of a key is the current one; none is ever changed.
    """

    __tablename__ = "calibrations"
    __table_args__ = (
        CheckConstraint(make_membership_condition("quantity", QUANTITIES), name="quantity"),
        CheckConstraint("cardinality(evidence) >= 1", name="evidence"),
        Index(None, "key", "quantity", "created_at", "id"),
        Index(None, "created_at", "id"),
        Index(None, "curve", "quantity"),
        Index(None, "kind", "environment", "quantity"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    key: Mapped[str]
    quantity: Mapped[str]
    curve: Mapped[str] = mapped_column(default="", server_default="")
    """The key of the question, which is the same in every environment."""
    kind: Mapped[str] = mapped_column(default="", server_default="")
    family: Mapped[str] = mapped_column(default="", server_default="")
    environment: Mapped[str] = mapped_column(default="", server_default="")
    """Releases, GPU and driver in words; with ``kind`` and ``family`` it says which keys may learn
    from each other.
    """
    scope: Mapped[Json]
    """Description of the key in words a person reads."""
    correction: Mapped[Json]
    evidence: Mapped[list[uuid.UUID]]
    """The measurements it rests on."""
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
