"""Statements about idempotency keys."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.db.tables.idempotency import IdempotencyRow


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTarget:
    """Job or reservation of a key: exactly one of the two."""

    job_id: UUID | None = None
    reservation_id: UUID | None = None


def claim_key(
    session: Session, target: KeyTarget, *, key: str, route: str, body_hash: str, ttl: timedelta
) -> bool:
    """Bind an unbound key; return whether it was bound now.

    Waits for a transaction that binds it right now, and takes expired keys over.
    """
    times = {"created_at": func.now(), "expires_at": func.now() + ttl}
    values = {
        "body_hash": body_hash,
        "job_id": target.job_id,
        "reservation_id": target.reservation_id,
        **times,
    }
    statement = (
        insert(IdempotencyRow)
        .values(key=key, route=route, **values)
        .on_conflict_do_update(
            index_elements=["key", "route"],
            set_=values,
            where=IdempotencyRow.expires_at <= func.now(),
        )
        .returning(IdempotencyRow.key)
    )
    return session.scalars(statement).one_or_none() is not None


def read_key(session: Session, *, key: str, route: str) -> tuple[str, UUID]:
    """Return body hash and target id of a bound key."""
    target = func.coalesce(IdempotencyRow.job_id, IdempotencyRow.reservation_id)
    statement = select(IdempotencyRow.body_hash, target)
    body_hash, target_id = session.execute(
        statement.where(IdempotencyRow.key == key, IdempotencyRow.route == route)
    ).one()
    return body_hash, target_id


def delete_expired_keys(session: Session) -> int:
    """Delete expired keys and return their number."""
    statement = (
        delete(IdempotencyRow)
        .where(IdempotencyRow.expires_at <= func.now())
        .returning(IdempotencyRow.key)
    )
    return len(session.scalars(statement).all())
