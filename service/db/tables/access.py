"""Tables of API keys and of the log of changes.

Of keys only digests are stored.
"""

import uuid
from datetime import datetime

from sqlalchemy import CheckConstraint, Index, Integer, LargeBinary, func
from sqlalchemy.orm import Mapped, mapped_column

from service.db.tables.base import Base


class ApiKeyRow(Base):
    """An API key.

    It stays after its end, so that the log of changes can still name it.
    """

    __tablename__ = "api_keys"
    __table_args__ = (
        Index(None, "created_at", "id"),
        CheckConstraint("octet_length(digest) = 32", name="digest"),
        CheckConstraint("jsonb_array_length(scopes) >= 1", name="scopes"),
        CheckConstraint("expires_at > created_at", name="expires_at"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    prefix: Mapped[str] = mapped_column(unique=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary)
    """SHA-256 of the whole key."""
    scopes: Mapped[list[str]]
    rate: Mapped[str | None]
    quota: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    created_by: Mapped[str]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class AuditEventRow(Base):
    """One change that was asked for over HTTP, whatever came of it."""

    __tablename__ = "audit_events"
    __table_args__ = (Index(None, "created_at", "id"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    principal: Mapped[str]
    key_id: Mapped[uuid.UUID | None]
    operation: Mapped[str]
    method: Mapped[str]
    path: Mapped[str]
    status: Mapped[int] = mapped_column(Integer)
    request_id: Mapped[str]
    peer: Mapped[str | None]
