"""Table of idempotency keys."""

import uuid
from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, func
from sqlalchemy.orm import Mapped, mapped_column

from service.db.tables.base import Base
from service.db.tables.clusters import ReservationRow


class IdempotencyRow(Base):
    """Job or reservation of an ``Idempotency-Key`` on one route.

    It lasts until it expires.
    """

    __tablename__ = "idempotency_records"
    __table_args__ = (
        Index(None, "expires_at"),
        CheckConstraint("num_nonnulls(job_id, reservation_id) = 1", name="stands_for_one"),
    )

    key: Mapped[str] = mapped_column(primary_key=True)
    route: Mapped[str] = mapped_column(primary_key=True)
    body_hash: Mapped[str]
    # Deferred, because the key is claimed before what it stands for is inserted, in the same
    # transaction.
    job_id: Mapped[uuid.UUID | None] = mapped_column(
        ForeignKey("measurements.id", ondelete="CASCADE", deferrable=True, initially="DEFERRED")
    )
    reservation_id: Mapped[uuid.UUID | None] = mapped_column(
        ForeignKey(ReservationRow.id, ondelete="CASCADE", deferrable=True, initially="DEFERRED")
    )
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime]
