"""Requests that may come twice: one key, one route, one body, one job, for 24 hours."""

import hashlib
from datetime import timedelta
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker

from service.db.queries import idempotency as queries
from service.db.session import transaction
from service.errors import IdempotencyConflictError

TTL = timedelta(hours=24)


def body_hash(body: bytes) -> str:
    """Return what tells two bodies apart; a client that repeats a request sends the same bytes."""
    return hashlib.sha256(body).hexdigest()


def job_for_key(session: Session, *, key: str, route: str, body: bytes, job_id: UUID) -> UUID:
    """Return ``job_id``, for the caller to insert in this transaction, or the job that the key already stands for."""
    hashed = body_hash(body)
    if queries.claim_key(session, key=key, route=route, body_hash=hashed, job_id=job_id, ttl=TTL):
        return job_id
    first_hash, first_job = queries.read_key(session, key=key, route=route)
    if first_hash != hashed:
        message = (
            f"Idempotency-Key {key!r} came with another body within the last {TTL // timedelta(hours=1)} hours; use a new key"
        )
        raise IdempotencyConflictError(message, job_id=str(first_job))
    return first_job


def forget_expired(sessions: sessionmaker[Session]) -> int:
    """Delete the keys whose time is over; return how many."""
    with transaction(sessions) as session:
        return queries.delete_expired_keys(session)
