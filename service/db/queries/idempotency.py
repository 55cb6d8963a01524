"""Every statement about requests that may come twice."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.db.tables.core import IdempotencyRow


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOf:
    """What a key stands for: exactly one of the two."""

    job_id: UUID | None = None
    reservation_id: UUID | None = None


def claim_key(session: Session, made: KeyOf, *, key: str, route: str, body_hash: str, ttl: timedelta) -> bool:
    """Bind a key unless it is bound; waits for a transaction that binds it right now, and takes expired ones over."""
    times = {"created_at": func.now(), "expires_at": func.now() + ttl}
    values = {"body_hash": body_hash, "job_id": made.job_id, "reservation_id": made.reservation_id, **times}
    statement = (
        insert(IdempotencyRow)
        .values(key=key, route=route, **values)
        .on_conflict_do_update(index_elements=["key", "route"], set_=values, where=IdempotencyRow.expires_at <= func.now())
        .returning(IdempotencyRow.key)
    )
    return session.scalars(statement).one_or_none() is not None


def read_key(session: Session, *, key: str, route: str) -> tuple[str, UUID]:
    """Return the body hash and the id of what a bound key stands for."""
    made = func.coalesce(IdempotencyRow.job_id, IdempotencyRow.reservation_id)
    statement = select(IdempotencyRow.body_hash, made)
    body_hash, made_id = session.execute(statement.where(IdempotencyRow.key == key, IdempotencyRow.route == route)).one()
    return body_hash, made_id


def bound_routes(session: Session, key: str, routes: Collection[str]) -> frozenset[str]:
    """Return those of ``routes`` on which a key stands for something."""
    statement = select(IdempotencyRow.route).where(IdempotencyRow.key == key, IdempotencyRow.route.in_(routes))
    return frozenset(session.scalars(statement.where(IdempotencyRow.expires_at > func.now())))


def delete_expired_keys(session: Session) -> int:
    """Forget keys whose time is over; return how many."""
    statement = delete(IdempotencyRow).where(IdempotencyRow.expires_at <= func.now()).returning(IdempotencyRow.key)
    return len(session.scalars(statement).all())
