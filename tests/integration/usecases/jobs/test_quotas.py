"""Quotas of measurements, against a real database."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from uuid import UUID

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from service.access.keys import Principal, Scope
from service.base.errors import (
    IdempotencyConflictError,
    InvalidRequestError,
    TooManyRequestsError,
)
from service.db.session import transaction
from service.db.tables.core import MeasureJobRow
from service.jobs.notify import skip_notification
from service.runtime.settings import Settings
from service.usecases.idempotency import RequestKey
from service.usecases.jobs import measurements
from service.usecases.jobs.measurements import Submission
from service.usecases.jobs.quotas import charge_quota
from tests.job_builders import a_request
from tests.locks import wait_for_blocked_transaction

Sessions = sessionmaker[Session]

SETTINGS = Settings()


def a_caller(quota: str | None = "2/day", *, key: str = "hr_1") -> Principal:
    """Return a caller with a quota."""
    return Principal(name="ci", scopes=frozenset({Scope.MEASURE}), key_id=key, quota=quota)


def a_submission(key: str | None = None, *, body: bytes = b"{}") -> Submission:
    """Return a request, with an Idempotency-Key if one is said."""
    idempotency = None if key is None else RequestKey(key=key, route="route", body=body)
    return Submission(request=a_request(), key="k", idempotency=idempotency)


def submit(sessions: Sessions, caller: Principal, *submissions: Submission) -> list[UUID]:
    """Return the ids of the jobs of requests."""
    asked = submissions or (a_submission(),)
    stored = measurements.submit_all(
        sessions, asked, settings=SETTINGS, notify=skip_notification, caller=caller
    )
    return [job.id for job in stored]


def count_jobs(sessions: Sessions) -> int:
    """Count all jobs."""
    with transaction(sessions) as session:
        return session.scalar(select(func.count()).select_from(MeasureJobRow)) or 0


def pass_time(sessions: Sessions, elapsed: timedelta) -> None:
    """Have every job asked for longer ago."""
    with transaction(sessions) as session:
        session.execute(update(MeasureJobRow).values(created_at=MeasureJobRow.created_at - elapsed))


def test_a_window_moves(sessions: Sessions) -> None:
    """Who asks too early is told to the second when a place is free, and gets it then."""
    submit(sessions, a_caller())
    pass_time(sessions, timedelta(hours=10))
    submit(sessions, a_caller())

    with pytest.raises(TooManyRequestsError, match="2/day measurements; try again in") as refusal:
        submit(sessions, a_caller())

    left_s = int(re.search(r"in (\d+) s", str(refusal.value))[1])  # type: ignore[index]
    assert timedelta(hours=13, minutes=58) < timedelta(seconds=left_s) <= timedelta(hours=14)
    pass_time(sessions, timedelta(seconds=left_s))
    submit(sessions, a_caller())
    with pytest.raises(TooManyRequestsError):
        submit(sessions, a_caller())


def test_racing_posts_do_not_pass_together(sessions: Sessions) -> None:
    """Of eight that count at the same moment as many are taken as the quota has room for."""
    start = Barrier(8)

    def post(_number: int) -> None:
        start.wait()
        with suppress(TooManyRequestsError):
            submit(sessions, a_caller("3/day"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(post, range(8)))

    assert count_jobs(sessions) == 3


def test_a_count_waits_for_who_counts_now(sessions: Sessions) -> None:
    """A job that is charged and not yet committed takes its place: a second charge waits for it,
    and another key's does not.
    """
    with ThreadPoolExecutor(1) as pool:
        with transaction(sessions) as session:
            charge_quota(session, a_caller("1/day"), 1)
            second = pool.submit(submit, sessions, a_caller("1/day"))
            wait_for_blocked_transaction(sessions)
            submit(sessions, a_caller("1/day", key="hr_2"))
            session.execute(update(MeasureJobRow).values(created_by_key="hr_1"))

        with pytest.raises(TooManyRequestsError):
            second.result()


def test_only_a_new_job_is_charged(sessions: Sessions) -> None:
    """Whoever lost the answer gets it again past his quota; a refusal stores nothing, and leaves
    the key free.
    """
    first = submit(sessions, a_caller("1/day"), a_submission("one"))

    assert submit(sessions, a_caller("1/day"), a_submission("one")) == first
    with pytest.raises(IdempotencyConflictError):
        submit(sessions, a_caller("1/day"), a_submission("one", body=b"[]"))
    for _ in range(2):
        with pytest.raises(TooManyRequestsError):
            submit(sessions, a_caller("1/day"), a_submission("two"))
    assert submit(sessions, a_caller(None), a_submission("two")) != first


def test_several_are_taken_all_or_none(sessions: Sessions) -> None:
    """What was asked for before does not count again; what never fits into a quota says so."""
    known = a_submission("one")
    first, _ = submit(sessions, a_caller("3/day"), known, a_submission("two"))

    with pytest.raises(TooManyRequestsError):
        submit(sessions, a_caller("3/day"), a_submission(), a_submission())
    with pytest.raises(InvalidRequestError, match=r"asks for 4 measurements, .* quota is 3/day"):
        submit(sessions, a_caller("3/day"), *(a_submission() for _ in range(4)))

    again, new = submit(sessions, a_caller("3/day"), known, a_submission())
    assert again == first
    assert new != first
    assert count_jobs(sessions) == 3


def test_neither_a_cancelled_job_nor_another_key_gives_quota(sessions: Sessions) -> None:
    """A quota is of what was asked for; that of a token is its subject's."""
    token = replace(a_caller("1/day"), key_id=None, subject="issuer subject")
    (job,) = submit(sessions, token)
    measurements.cancel(sessions, job)

    with pytest.raises(TooManyRequestsError):
        submit(sessions, token)

    submit(sessions, a_caller("1/day"))
