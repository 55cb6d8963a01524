"""A request that comes twice makes one job; a key that comes with another body is refused."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import IdempotencyConflictError
from service.db.session import transaction
from service.db.tables.core import MeasureJobRow
from service.usecases.idempotency import TTL, bind_job_key, forget_expired

BODY = b'{"model": "llama-3.2-1b"}'


def submit(
    sessions: sessionmaker[Session],
    *,
    key: str = "k",
    route: str = "POST /v1/measurements",
    body: bytes = BODY,
) -> UUID:
    """Do what a submission does: claim the key, and insert the job when the key was free."""
    mine = uuid4()
    with transaction(sessions) as session:
        job_id = bind_job_key(session, key=key, route=route, body=body, job_id=mine)
        if job_id == mine:
            session.add(
                MeasureJobRow(id=mine, device="cpu", request={}, key="c", deadline_at=func.now())
            )
    return job_id


def num_jobs(sessions: sessionmaker[Session]) -> int:
    """Count the stored jobs."""
    with transaction(sessions) as session:
        return session.execute(select(func.count()).select_from(MeasureJobRow)).scalar_one()


def expire_keys(sessions: sessionmaker[Session]) -> None:
    """Let every key's time be over."""
    with transaction(sessions) as session:
        session.execute(text("UPDATE idempotency_records SET expires_at = now()"))


def test_a_repeated_request_gets_the_first_job(sessions: sessionmaker[Session]) -> None:
    """The same key and body mean the same job, however often they come."""
    answers = {submit(sessions) for _ in range(3)}

    assert len(answers) == 1
    assert num_jobs(sessions) == 1


def test_another_body_is_refused(sessions: sessionmaker[Session]) -> None:
    """A key that was used for another request names the job that it stands for."""
    first = submit(sessions)

    with pytest.raises(IdempotencyConflictError, match="24 hours") as refused:
        submit(sessions, body=b"{}")

    assert refused.value.extra == {"job_id": str(first)}
    assert num_jobs(sessions) == 1


def test_keys_and_routes_are_kept_apart(sessions: sessionmaker[Session]) -> None:
    """Another key is another request, and so is the same key on another route."""
    answers = {
        submit(sessions),
        submit(sessions, key="other"),
        submit(sessions, route="POST /v1/plans", body=b"{}"),
    }

    assert len(answers) == 3


def test_many_at_once_make_one_job(sessions: sessionmaker[Session]) -> None:
    """Retries that overlap wait for the first and get its job."""
    with ThreadPoolExecutor(16) as threads:
        answers = set(threads.map(lambda _: submit(sessions), range(50)))

    assert len(answers) == 1
    assert num_jobs(sessions) == 1


def test_a_submission_that_failed_leaves_the_key_free(sessions: sessionmaker[Session]) -> None:
    """The key is bound in the job's transaction: no job, no key."""

    def fail() -> None:
        with transaction(sessions) as session:
            bind_job_key(session, key="k", route="POST /v1/measurements", body=BODY, job_id=uuid4())
            raise TimeoutError

    with pytest.raises(TimeoutError):
        fail()
    submit(sessions, body=b"another body")

    assert num_jobs(sessions) == 1


def test_a_key_lives_for_a_day(sessions: sessionmaker[Session]) -> None:
    """Until then it is remembered, and after that it may stand for another request."""
    first = submit(sessions)
    with transaction(sessions) as session:
        lives = session.execute(
            text("SELECT expires_at - created_at FROM idempotency_records")
        ).scalar_one()
    expire_keys(sessions)
    second = submit(sessions, body=b"another body")

    assert lives == TTL
    assert second != first
    assert submit(sessions, body=b"another body") == second


def test_expired_keys_are_forgotten(sessions: sessionmaker[Session]) -> None:
    """The table does not grow for ever; keys that live stay, and so do the jobs."""
    submit(sessions, key="old")
    expire_keys(sessions)
    kept = submit(sessions, key="new")

    assert forget_expired(sessions) == 1
    assert forget_expired(sessions) == 0
    assert submit(sessions, key="new") == kept
    assert num_jobs(sessions) == 2
