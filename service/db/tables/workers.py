"""Table of workers."""

import uuid
from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, Integer, func
from sqlalchemy.orm import Mapped, mapped_column

from service.db.tables.base import Base, Json, make_membership_condition
from service.db.tables.types import StorableJSON

WORKER_STATES = ("idle", "busy", "stopped")


class WorkerRow(Base):
    """A worker process.

    One whose heartbeat is older than a lease is gone.
    """

    __tablename__ = "workers"
    __table_args__ = (
        CheckConstraint(make_membership_condition("state", WORKER_STATES), name="state"),
        CheckConstraint("state = 'busy' OR current_job_id IS NULL", name="only_busy_has_a_job"),
        Index(None, "last_heartbeat"),
    )

    name: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str]
    pid: Mapped[int] = mapped_column(Integer)
    devices: Mapped[list[Json]]
    versions: Mapped[Json]
    observed: Mapped[Json | None] = mapped_column(StorableJSON(none_as_null=True))
    """Memory in use and processes on its GPU when it was last idle, all of them somebody else's."""
    state: Mapped[str] = mapped_column(default="idle", server_default="idle")
    current_job_id: Mapped[uuid.UUID | None] = mapped_column(
        ForeignKey("measurements.id", ondelete="SET NULL")
    )
    last_heartbeat: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
