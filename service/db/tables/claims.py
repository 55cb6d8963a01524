"""Table of who brought imported measurements."""

import uuid
from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, func
from sqlalchemy.orm import Mapped, mapped_column

from service.db.tables.base import Base, make_membership_condition
from service.jobs.states import ClaimState


class ClaimRow(Base):
    """Source of an imported measurement, and whether it counts.

    Imports from before there were claims have none, and count.
    """

    __tablename__ = "measurement_claims"
    __table_args__ = (
        CheckConstraint(make_membership_condition("state", ClaimState), name="state"),
        Index(None, "source", "state"),
    )

    job_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("measurements.id", ondelete="CASCADE"), primary_key=True
    )
    source: Mapped[str]
    """Name of the key, or of whoever a token stands for."""
    source_key: Mapped[str | None]
    """Id of the key or subject of the token; null where nobody needed one."""
    cluster: Mapped[str | None]
    """The stored cluster that it is said to have run on; null where none was named."""
    state: Mapped[str]
    reason: Mapped[str | None]
    """Why it is held apart; null where it is not."""
    decided_by: Mapped[str | None]
    decided_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
