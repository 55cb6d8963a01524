"""The rules of a job's states."""

import pytest

from service.jobs.states import JobState, Lease, Status, get_lease, get_status_after_lost_attempt


def a_job(
    *,
    status: Status = Status.RUNNING,
    attempt: int = 1,
    cancel_requested: bool = False,
    overdue: bool = False,
) -> JobState:
    """Return a job with three attempts."""
    return JobState(
        status=status,
        attempt=attempt,
        max_attempts=3,
        cancel_requested=cancel_requested,
        overdue=overdue,
    )


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (a_job(attempt=1), Status.QUEUED),
        (a_job(attempt=2), Status.QUEUED),
        (a_job(attempt=3), Status.FAILED),
        (a_job(attempt=1, overdue=True), Status.FAILED),
        (a_job(attempt=1, cancel_requested=True), Status.CANCELLED),
        (a_job(attempt=3, cancel_requested=True, overdue=True), Status.CANCELLED),
    ],
)
def test_a_lost_attempt_is_followed_by_another_while_there_may_be_one(
    job: JobState, expected: Status
) -> None:
    """Back to the queue while attempts and time are left; who cancelled gets a cancelled job."""
    assert get_status_after_lost_attempt(job) is expected


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (a_job(attempt=1), Lease.HELD),
        (a_job(attempt=1, cancel_requested=True), Lease.CANCELLED),
        (a_job(attempt=2), Lease.LOST),
        (a_job(attempt=2, cancel_requested=True), Lease.LOST),
        (a_job(attempt=1, status=Status.QUEUED), Lease.HELD),
        (a_job(attempt=1, status=Status.CANCELLED), Lease.LOST),
        (None, Lease.LOST),
    ],
)
def test_an_attempt_goes_on_while_its_result_would_be_taken(
    job: JobState | None, expected: Lease
) -> None:
    """Attempt 1 holds on even after its lease ran out, until a second one begins."""
    assert get_lease(job, attempt=1) is expected


def test_three_states_are_the_end() -> None:
    """Nothing follows success, failure and cancellation."""
    assert {status for status in Status if status.is_terminal} == {
        Status.SUCCEEDED,
        Status.FAILED,
        Status.CANCELLED,
    }
