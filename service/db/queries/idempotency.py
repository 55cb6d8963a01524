"""Every statement about requests that may come twice."""

from datetime import timedelta
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.db.tables import IdempotencyRow


def claim_key(session: Session, *, key: str, route: str, body_hash: str, job_id: UUID, ttl: timedelta) -> bool:
    """Bind a key to a job unless it is bound; waits for a transaction that binds it right now, and takes expired ones over."""
    values = {"body_hash": body_hash, "job_id": job_id, "created_at": func.now(), "expires_at": func.now() + ttl}
    statement = (
        insert(IdempotencyRow)
        .values(key=key, route=route, **values)
        .on_conflict_do_update(index_elements=["key", "route"], set_=values, where=IdempotencyRow.expires_at <= func.now())
        .returning(IdempotencyRow.job_id)
    )
    return session.scalars(statement).one_or_none() is not None


def read_key(session: Session, *, key: str, route: str) -> tuple[str, UUID]:
    """Return the body hash and the job that a bound key stands for."""
    statement = select(IdempotencyRow.body_hash, IdempotencyRow.job_id)
    body_hash, job_id = session.execute(statement.where(IdempotencyRow.key == key, IdempotencyRow.route == route)).one()
    return body_hash, job_id


def delete_expired_keys(session: Session) -> int:
    """Forget keys whose time is over; return how many."""
    statement = delete(IdempotencyRow).where(IdempotencyRow.expires_at <= func.now()).returning(IdempotencyRow.key)
    return len(session.scalars(statement).all())
