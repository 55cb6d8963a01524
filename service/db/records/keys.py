"""Stored API keys and audit events as values."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from service.access.keys import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key to make; without ``expires_in`` it lives until it is revoked."""

    name: str
    scopes: frozenset[Scope]
    created_by: str
    expires_in: timedelta | None = None
    rate: str | None = None
    quota: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """A key without its secret."""

    id: UUID
    name: str
    prefix: str
    scopes: frozenset[Scope]
    rate: str | None
    quota: str | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One change: its principal, operation, origin and response status."""

    id: UUID = field(default_factory=uuid4)
    principal: str
    key_id: UUID | None
    operation: str
    method: str
    path: str
    status: int
    request_id: str
    peer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAuditEvent:
    """A change as it was written down."""

    id: UUID
    created_at: datetime
    event: AuditEvent
