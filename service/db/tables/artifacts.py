"""Table of measurement artifacts."""

import builtins
import uuid
from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Integer, LargeBinary, func
from sqlalchemy.orm import Mapped, mapped_column

from service.db.tables.base import Base
from service.jobs.artifacts import MAX_PACKED_BYTES


class ArtifactRow(Base):
    """A file of a measurement.

    There is at most one of a name, written with the result that it belongs to.
    """

    __tablename__ = "measurement_artifacts"
    __table_args__ = (
        CheckConstraint(f"octet_length(packed) BETWEEN 1 AND {MAX_PACKED_BYTES}", name="packed"),
        CheckConstraint("bytes >= 0", name="bytes"),
        CheckConstraint("sha256 ~ '^[0-9a-f]{64}$'", name="sha256"),
    )

    job_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("measurements.id", ondelete="CASCADE"), primary_key=True
    )
    name: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(Integer)
    media_type: Mapped[str]
    bytes: Mapped[int]
    """Size before packing."""
    sha256: Mapped[str]
    """SHA-256 of the unpacked file."""
    packed: Mapped[builtins.bytes] = mapped_column(LargeBinary)
    """Gzipped; stored in pieces that Postgres does not try to pack again, so that a part of it is
    read without the rest.
    """
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
