"""Idempotency keys: one result per key, route and body for 24 hours."""

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import IdempotencyConflictError
from service.db.queries import idempotency as queries
from service.db.queries.idempotency import KeyTarget
from service.db.session import transaction

TTL = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKey:
    """An ``Idempotency-Key`` with its route and body.

    The same key and body give the same job or reservation.
    """

    key: str
    route: str
    body: bytes


def hash_body(body: bytes) -> str:
    """Return the SHA-256 of a body."""
    return hashlib.sha256(body).hexdigest()


def bind_job_key(session: Session, *, key: str, route: str, body: bytes, job_id: UUID) -> UUID:
    """Bind a key to ``job_id``, or return the already bound job.

    A new ``job_id`` is for the caller to insert in this transaction.
    """
    request = RequestKey(key=key, route=route, body=body)
    bound, conflict = _bind_key(session, request, job_id, KeyTarget(job_id=job_id))
    if conflict is not None:
        raise IdempotencyConflictError(conflict, job_id=str(bound))
    return bound


def bind_reservation_key(session: Session, request: RequestKey, reservation_id: UUID) -> UUID:
    """Bind a key to ``reservation_id``, or return the reservation already bound.

    A new ``reservation_id`` is for the caller to insert in this transaction.
    """
    bound, conflict = _bind_key(
        session, request, reservation_id, KeyTarget(reservation_id=reservation_id)
    )
    if conflict is not None:
        raise IdempotencyConflictError(conflict, reservation_id=str(bound))
    return bound


def _bind_key(
    session: Session, request: RequestKey, new_id: UUID, target: KeyTarget
) -> tuple[UUID, str | None]:
    """Return the id that a key is bound to, and any conflict.

    The conflict is the message for a key that is bound with another body.
    """
    hashed = hash_body(request.body)
    if queries.claim_key(
        session, target, key=request.key, route=request.route, body_hash=hashed, ttl=TTL
    ):
        return new_id, None
    first_hash, first_id = queries.read_key(session, key=request.key, route=request.route)
    if first_hash == hashed:
        return first_id, None
    hours = TTL // timedelta(hours=1)
    return (
        first_id,
        (
            f"Idempotency-Key {request.key!r} came with another body within the last {hours} "
            "hours; use a new key"
        ),
    )


def forget_expired(sessions: sessionmaker[Session]) -> int:
    """Delete expired keys and return their number."""
    with transaction(sessions) as session:
        return queries.delete_expired_keys(session)
