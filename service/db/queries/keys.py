"""Statements about API keys and the log of changes.

Times are the database's.
"""

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.access.keys import Scope, Token
from service.db.pages import Page, PageRequest, make_page, paginate
from service.db.records.keys import AuditEvent, NewKey, StoredAuditEvent, StoredKey
from service.db.tables.access import ApiKeyRow, AuditEventRow

KEYS, EVENTS = "keys", "audit"


def insert_key(session: Session, new: NewKey, token: Token) -> StoredKey:
    """Store the digest of a key, never the key."""
    now = session.execute(select(func.clock_timestamp())).scalar_one()
    values = {
        "name": new.name,
        "prefix": token.prefix,
        "digest": token.digest,
        "scopes": sorted(new.scopes),
        "rate": new.rate,
        "quota": new.quota,
        "created_at": now,
        "created_by": new.created_by,
        "expires_at": None if new.expires_in is None else now + new.expires_in,
    }
    return _to_stored_key(
        session.scalars(insert(ApiKeyRow).values(**values).returning(ApiKeyRow)).one()
    )


def list_live_keys(session: Session) -> Mapping[str, tuple[StoredKey, bytes]]:
    """Return every live key with its digest, by prefix.

    A live key is neither revoked nor expired.
    """
    rows = session.scalars(select(ApiKeyRow).where(_is_live()))
    return {row.prefix: (_to_stored_key(row), row.digest) for row in rows}


def has_live_key(session: Session) -> bool:
    """Return whether any key would be let in."""
    return bool(session.scalar(select(select(ApiKeyRow.id).where(_is_live()).exists())))


def list_keys(session: Session, request: PageRequest) -> Page[StoredKey]:
    """Return a page of keys, newest first, expired ones included."""
    statement = paginate(
        select(ApiKeyRow),
        request,
        list_name=KEYS,
        created_at=ApiKeyRow.created_at,
        row_id=ApiKeyRow.id,
    )
    rows = session.scalars(statement).all()
    return make_page(
        rows,
        request,
        list_name=KEYS,
        position=lambda row: (row.created_at, row.id),
        value=_to_stored_key,
    )


def revoke(session: Session, key_id: UUID) -> StoredKey | None:
    """End a key now.

    A key that has ended keeps its end; ``None`` when there is no such key.
    """
    ended = func.coalesce(ApiKeyRow.revoked_at, func.clock_timestamp())
    statement = (
        update(ApiKeyRow)
        .where(ApiKeyRow.id == key_id)
        .values(revoked_at=ended)
        .returning(ApiKeyRow)
    )
    row = session.scalars(statement).one_or_none()
    return None if row is None else _to_stored_key(row)


def mark_used(session: Session, key_ids: Collection[UUID]) -> None:
    """Set the time of last use of keys to now."""
    session.execute(
        update(ApiKeyRow).where(ApiKeyRow.id.in_(key_ids)).values(last_used_at=func.now())
    )


def insert_event(session: Session, event: AuditEvent) -> None:
    """Store one audit event, or the status of one that is stored."""
    values: dict[str, Any] = {
        name: getattr(event, name) for name in AuditEvent.__dataclass_fields__
    }
    statement = insert(AuditEventRow).values(**values)
    session.execute(
        statement.on_conflict_do_update(
            index_elements=[AuditEventRow.id], set_={"status": statement.excluded.status}
        )
    )


def list_audit_events(session: Session, request: PageRequest) -> Page[StoredAuditEvent]:
    """Return a page of changes, newest first."""
    statement = paginate(
        select(AuditEventRow),
        request,
        list_name=EVENTS,
        created_at=AuditEventRow.created_at,
        row_id=AuditEventRow.id,
    )
    rows = session.scalars(statement).all()
    return make_page(
        rows,
        request,
        list_name=EVENTS,
        position=lambda row: (row.created_at, row.id),
        value=_to_stored_event,
    )


def _is_live() -> ColumnElement[bool]:
    return ApiKeyRow.revoked_at.is_(None) & or_(
        ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > func.now()
    )


def _to_stored_key(row: ApiKeyRow) -> StoredKey:
    return StoredKey(
        id=row.id,
        name=row.name,
        prefix=row.prefix,
        # A newer release may have written a scope that this one does not know: it grants nothing.
        scopes=frozenset(scope for scope in Scope if scope.value in row.scopes),
        rate=row.rate,
        quota=row.quota,
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )


def _to_stored_event(row: AuditEventRow) -> StoredAuditEvent:
    return StoredAuditEvent(
        id=row.id,
        created_at=row.created_at,
        event=AuditEvent(
            id=row.id,
            principal=row.principal,
            key_id=row.key_id,
            operation=row.operation,
            method=row.method,
            path=row.path,
            status=row.status,
            request_id=row.request_id,
            peer=row.peer,
        ),
    )
