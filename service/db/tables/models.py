"""Tables of stored models and their revisions."""

import uuid
from datetime import datetime

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    UniqueConstraint,
    func,
)
from sqlalchemy.orm import Mapped, mapped_column, relationship

from service.db.tables.base import Base, Json


class ModelRow(Base):
    """A stored model and the number of its newest revision."""

    __tablename__ = "models"
    __table_args__ = (
        Index(None, "created_at", "id"),
        CheckConstraint("current_revision >= 1", name="current_revision"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str] = mapped_column(unique=True)
    current_revision: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ModelRevisionRow(Base):
    """One revision of a model.

    It is never changed, so that caches may keep it by its id; one that waits for its recording is
    filled once.
    """

    __tablename__ = "model_revisions"
    __table_args__ = (
        UniqueConstraint("model_id", "number"),
        CheckConstraint("number >= 1", name="number"),
        CheckConstraint(
            "num_parameters >= 0 AND num_active_parameters <= num_parameters", name="parameters"
        ),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    model_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"))
    number: Mapped[int] = mapped_column(Integer)
    source: Mapped[Json]
    """As it was sent: ``{"hf_config": {…}}`` or ``{"architecture": {…}}``."""
    architecture: Mapped[Json]
    """Our own spec, read back without the source."""
    family: Mapped[str]
    fingerprint: Mapped[str] = mapped_column(index=True)
    num_parameters: Mapped[int]
    num_active_parameters: Mapped[int]
    num_embedding_parameters: Mapped[int]
    parameters_by_module: Mapped[Json]
    config_digest: Mapped[str | None] = mapped_column(
        ForeignKey("config_recordings.config_digest"), index=True
    )
    """The config whose recording it waits for; null once its architecture is known."""
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    model: Mapped[ModelRow] = relationship(lazy="raise")


class RetiredModelRow(Base):
    """A name whose model was deleted.

    It has the highest revision that was given out under it.
    """

    __tablename__ = "retired_models"
    __table_args__ = (CheckConstraint("last_revision >= 1", name="last_revision"),)

    name: Mapped[str] = mapped_column(primary_key=True)
    last_revision: Mapped[int] = mapped_column(Integer)


MAX_PACKED_BYTES = 16 * 2**20
"""Largest compressed document; that of a decoder has 10,000 bytes."""


class RecordingRow(Base):
    """A recording of transformers' own code, by the address of its content."""

    __tablename__ = "recordings"
    __table_args__ = (
        CheckConstraint(f"octet_length(packed) BETWEEN 1 AND {MAX_PACKED_BYTES}", name="packed"),
        CheckConstraint("digest ~ '^[0-9a-f]{64}$'", name="digest"),
    )

    digest: Mapped[str] = mapped_column(primary_key=True)
    """SHA-256 of the document, which names the releases that it was recorded with."""
    packed: Mapped[bytes] = mapped_column(LargeBinary)
    """The document as JSON, gzipped."""
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ConfigRecordingRow(Base):
    """The recording of a config that no module reads.

    There is one row a config, whatever models wait for it.
    """

    __tablename__ = "config_recordings"
    __table_args__ = (
        CheckConstraint("config_digest ~ '^[0-9a-f]{64}$'", name="config_digest"),
        CheckConstraint(f"octet_length(weights) BETWEEN 1 AND {MAX_PACKED_BYTES}", name="weights"),
    )

    config_digest: Mapped[str] = mapped_column(primary_key=True)
    """SHA-256 of what the config says of its model."""
    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("measurements.id"), index=True)
    """The newest job that records it."""
    weights: Mapped[bytes | None] = mapped_column(LargeBinary)
    """Its weights alone, known before its passes are recorded: a document as JSON, gzipped."""
    transformers: Mapped[str | None]
    """The release that it was built with."""
    torch: Mapped[str | None]
    digest: Mapped[str | None] = mapped_column(ForeignKey(RecordingRow.digest))
    """Its recording, once there is one."""
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
