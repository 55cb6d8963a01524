"""Every statement about API keys and about the log of changes; times are the database's."""

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.access.keys import Scope, Token
from service.db.pages import Page, PageRequest, after, page_of
from service.db.records.keys import AuditEvent, NewKey, StoredAuditEvent, StoredKey
from service.db.tables.access import ApiKeyRow, AuditEventRow

KEYS, EVENTS = "keys", "audit"


def insert_key(session: Session, new: NewKey, token: Token) -> StoredKey:
    """Store a key: its digest, never the key."""
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
    return _value(session.scalars(insert(ApiKeyRow).values(**values).returning(ApiKeyRow)).one())


def live_keys(session: Session) -> Mapping[str, tuple[StoredKey, bytes]]:
    """Return every key that is neither revoked nor over, with its digest, by prefix."""
    rows = session.scalars(select(ApiKeyRow).where(_is_live()))
    return {row.prefix: (_value(row), row.digest) for row in rows}


def has_live_key(session: Session) -> bool:
    """Tell whether anybody could be let in."""
    return bool(session.scalar(select(select(ApiKeyRow.id).where(_is_live()).exists())))


def page_of_keys(session: Session, request: PageRequest) -> Page[StoredKey]:
    """Return a page of keys, those that are over among them, newest first."""
    statement = after(select(ApiKeyRow), request, list_name=KEYS, created_at=ApiKeyRow.created_at, row_id=ApiKeyRow.id)
    rows = session.scalars(statement).all()
    return page_of(rows, request, list_name=KEYS, position=lambda row: (row.created_at, row.id), value=_value)


def revoke(session: Session, key_id: UUID) -> StoredKey | None:
    """End a key now, or leave it at the end that it has had; ``None`` when there is no such key."""
    ended = func.coalesce(ApiKeyRow.revoked_at, func.clock_timestamp())
    statement = update(ApiKeyRow).where(ApiKeyRow.id == key_id).values(revoked_at=ended).returning(ApiKeyRow)
    row = session.scalars(statement).one_or_none()
    return None if row is None else _value(row)


def mark_used(session: Session, key_ids: Collection[UUID]) -> None:
    """Say that keys were used just now."""
    session.execute(update(ApiKeyRow).where(ApiKeyRow.id.in_(key_ids)).values(last_used_at=func.now()))


def insert_event(session: Session, event: AuditEvent) -> None:
    """Write one change down."""
    values: dict[str, Any] = {name: getattr(event, name) for name in AuditEvent.__dataclass_fields__}
    session.execute(insert(AuditEventRow).values(**values))


def page_of_events(session: Session, request: PageRequest) -> Page[StoredAuditEvent]:
    """Return a page of changes, newest first."""
    statement = after(
        select(AuditEventRow), request, list_name=EVENTS, created_at=AuditEventRow.created_at, row_id=AuditEventRow.id
    )
    rows = session.scalars(statement).all()
    return page_of(rows, request, list_name=EVENTS, position=lambda row: (row.created_at, row.id), value=_event)


def _is_live() -> ColumnElement[bool]:
    return ApiKeyRow.revoked_at.is_(None) & or_(ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > func.now())


def _value(row: ApiKeyRow) -> StoredKey:
    return StoredKey(
        id=row.id,
        name=row.name,
        prefix=row.prefix,
        scopes=frozenset(Scope(scope) for scope in row.scopes),
        rate=row.rate,
        quota=row.quota,
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )


def _event(row: AuditEventRow) -> StoredAuditEvent:
    return StoredAuditEvent(
        id=row.id,
        created_at=row.created_at,
        event=AuditEvent(
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
