"""Requests that may come twice: one key, one route, one body, one result, for 24 hours."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import IdempotencyConflictError
from service.db.queries import idempotency as queries
from service.db.queries.idempotency import KeyOf
from service.db.session import transaction

TTL = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKey:
    """An ``Idempotency-Key`` with what it came with: the same key and body give the same job or reservation."""

    key: str
    route: str
    body: bytes


def body_hash(body: bytes) -> str:
    """Return what tells two bodies apart."""
    return hashlib.sha256(body).hexdigest()


def job_for_key(session: Session, *, key: str, route: str, body: bytes, job_id: UUID) -> UUID:
    """Return ``job_id``, for the caller to insert in this transaction, or the job that the key already stands for."""
    request = RequestKey(key=key, route=route, body=body)
    bound, conflict = _bound(session, request, job_id, KeyOf(job_id=job_id))
    if conflict is not None:
        raise IdempotencyConflictError(conflict, job_id=str(bound))
    return bound


def reservation_for_key(session: Session, request: RequestKey, reservation_id: UUID) -> UUID:
    """Return ``reservation_id``, to be inserted in this transaction, or the reservation that the key already stands for."""
    bound, conflict = _bound(session, request, reservation_id, KeyOf(reservation_id=reservation_id))
    if conflict is not None:
        raise IdempotencyConflictError(conflict, reservation_id=str(bound))
    return bound


def _bound(session: Session, request: RequestKey, new_id: UUID, made: KeyOf) -> tuple[UUID, str | None]:
    """Return what the key stands for, and what to say when it stands for another body."""
    hashed = body_hash(request.body)
    if queries.claim_key(session, made, key=request.key, route=request.route, body_hash=hashed, ttl=TTL):
        return new_id, None
    first_hash, first_id = queries.read_key(session, key=request.key, route=request.route)
    if first_hash == hashed:
        return first_id, None
    hours = TTL // timedelta(hours=1)
    return first_id, f"Idempotency-Key {request.key!r} came with another body within the last {hours} hours; use a new key"


def num_new(sessions: sessionmaker[Session], requests: Collection[RequestKey | None]) -> int:
    """Return how many of these requests would make something: all but those whose key stands for something already."""
    known = 0
    with transaction(sessions) as session:
        for key in {request.key for request in requests if request is not None}:
            routes = [request.route for request in requests if request is not None and request.key == key]
            known += len(queries.bound_routes(session, key, routes))
    return len(requests) - known


def forget_expired(sessions: sessionmaker[Session]) -> int:
    """Delete the keys whose time is over; return how many."""
    with transaction(sessions) as session:
        return queries.delete_expired_keys(session)
