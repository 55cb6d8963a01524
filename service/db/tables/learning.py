"""Table of residuals: one row per measurement and quantity.

A residual says how far answers were from a measurement, before and after what was learnt.
"""

import uuid
from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, func
from sqlalchemy.orm import Mapped, mapped_column

from service.db.tables.base import Base, make_membership_condition
from service.jobs.contract import ProbeDevice

QUANTITIES = ("allocated", "reserved", "device", "step_time", "prefill_time")
LEVELS = ("point", "key", "family", "global", "none")


class ResidualRow(Base):
    """A measurement beside its answers, in bytes or nanoseconds.

    ``predicted`` is the analytic answer, ``after`` the one that rests on everything but this
    measurement, which is written anew whenever the key learns; ``level`` says on what. Each has its
    0.95 interval where it gives one.
    """

    __tablename__ = "residuals"
    __table_args__ = (
        CheckConstraint(make_membership_condition("quantity", QUANTITIES), name="quantity"),
        CheckConstraint(make_membership_condition("device", ProbeDevice), name="device"),
        CheckConstraint(make_membership_condition("level", LEVELS), name="level"),
        CheckConstraint("measured > 0 AND predicted > 0 AND after > 0", name="positive"),
        CheckConstraint("low <= high AND after_low <= after_high", name="intervals"),
        CheckConstraint(
            "num_nulls(low, high) <> 1 AND num_nulls(after_low, after_high) <> 1",
            name="whole_intervals",
        ),
        Index(None, "kind", "quantity", "measured_at"),
        Index(None, "curve", "quantity", "measured_at"),
        Index(None, "measured_at"),
    )

    job_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("measurements.id", ondelete="CASCADE"), primary_key=True
    )
    quantity: Mapped[str] = mapped_column(primary_key=True)
    curve: Mapped[str]
    """The calibration key of the question, in whatever environment."""
    kind: Mapped[str]
    family: Mapped[str]
    environment: Mapped[str]
    device: Mapped[str]
    gpu: Mapped[str | None]
    measured: Mapped[int]
    predicted: Mapped[int]
    low: Mapped[int | None]
    high: Mapped[int | None]
    after: Mapped[int]
    after_low: Mapped[int | None]
    after_high: Mapped[int | None]
    level: Mapped[str]
    surprised: Mapped[bool | None]
    """Whether it lay outside of what a calibration had promised before it was measured; NULL where
    none had.
    """
    measured_at: Mapped[datetime] = mapped_column(server_default=func.now())
