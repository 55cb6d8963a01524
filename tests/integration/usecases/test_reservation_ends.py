"""Ends of reservations: their GPUs are free at once."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from service.base.errors import (
    InvalidRequestError,
    PreconditionFailedError,
    PreconditionRequiredError,
    ReservationEndedError,
    ReservationNotFoundError,
)
from service.db.pages import PageRequest
from service.db.session import transaction
from service.usecases.clusters import clusters, reservations
from service.usecases.clusters.reservations import NewReservation, ReservationChange
from service.usecases.idempotency import RequestKey
from service.usecases.stored import SchedulerJob
from tests.integration.usecases.reserving import INVENTORY, Sessions, free_of, reserve, share


def expire(sessions: Sessions, by: timedelta = timedelta()) -> None:
    """Let every reservation have ended so long ago."""
    with transaction(sessions) as session:
        session.execute(
            text(
                "UPDATE reservations SET created_at = created_at - interval '9 days', expires_at = "
                "now() - :by"
            ),
            {"by": by},
        )


@pytest.fixture(autouse=True)
def _cluster(sessions: Sessions) -> None:
    clusters.create(sessions, name="c", inventory=INVENTORY)


def test_an_expired_reservation_is_free_at_once(sessions: Sessions) -> None:
    """Nobody has to clean up before its GPUs are promised again; who asks for it is told that it
    expired.
    """
    made = reserve(sessions, share(num_gpus=8))
    expire(sessions)

    assert reservations.list_page(sessions, "c", PageRequest()).items == ()
    with pytest.raises(ReservationNotFoundError, match="expired at"):
        reservations.read(sessions, "c", made.id)
    assert reserve(sessions, share(num_gpus=8)).shares == made.shares


def test_a_release_needs_what_was_seen(sessions: Sessions) -> None:
    """Without If-Match 428, with another version 412; released, its GPUs are free and it is
    gone.
    """
    made = reserve(sessions, share(num_gpus=8))
    with pytest.raises(PreconditionRequiredError):
        reservations.release(sessions, "c", made.id, if_match=None)
    with pytest.raises(PreconditionFailedError):
        reservations.release(sessions, "c", made.id, if_match='"x"')
    reservations.release(sessions, "c", made.id, if_match=f'"{made.etag}"')

    assert free_of(sessions)["a100"] == 20
    with pytest.raises(ReservationNotFoundError, match="was released at"):
        reservations.release(sessions, "c", made.id, if_match="*")


def test_a_repeated_request_after_the_end_promises_nothing(sessions: Sessions) -> None:
    """A retry that comes late does not take the GPUs a second time."""
    key = RequestKey(key="k", route="r", body=b"{}")
    made = reserve(sessions, share(), key=key)
    reservations.release(sessions, "c", made.id, if_match="*")

    with pytest.raises(ReservationEndedError):
        reserve(sessions, share(), key=key)
    assert free_of(sessions)["a100"] == 20


def test_ended_reservations_are_forgotten_a_day_later(sessions: Sessions) -> None:
    """The table does not grow for ever, but remembers as long as keys do; live ones stay."""
    reserve(sessions, share(num_gpus=1))
    expire(sessions, by=timedelta(hours=23))
    kept = reservations.forget_ended(sessions)
    expire(sessions, by=timedelta(hours=25))
    live = reserve(sessions, share(num_gpus=1))

    assert (kept, reservations.forget_ended(sessions)) == (0, 1)
    assert reservations.read(sessions, "c", live.id) == live


def test_an_end_in_the_past_is_refused(sessions: Sessions) -> None:
    """Neither a moment that is over nor one that is years away is an end."""
    for moment in (datetime(2020, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)):
        wanted = NewReservation(holder="a", gpus=(share(),), expires_at=moment)
        with pytest.raises(InvalidRequestError, match="expires_at"):
            reservations.reserve(sessions, "c", wanted)


def test_a_reservation_gets_another_end_and_a_job(sessions: Sessions) -> None:
    """Each change makes another version; who has seen an older one changes nothing."""
    made = reserve(sessions, share(num_gpus=8))
    job = SchedulerJob(scheduler="slurm", id="4711")
    linked = reservations.change(
        sessions, "c", made.id, ReservationChange(job=job), if_match=f'"{made.etag}"'
    )
    longer = ReservationChange(expires_in=timedelta(hours=5))
    with pytest.raises(PreconditionFailedError):
        reservations.change(sessions, "c", made.id, longer, if_match=f'"{made.etag}"')
    extended = reservations.change(sessions, "c", made.id, longer, if_match=f'"{linked.etag}"')

    assert (linked.job, linked.expires_at) == (job, made.expires_at)
    assert timedelta(hours=4) < extended.expires_at - made.expires_at < timedelta(hours=5)
    assert reservations.read(sessions, "c", made.id) == extended
    assert len({made.etag, linked.etag, extended.etag}) == 3


def test_what_has_ended_is_not_extended(sessions: Sessions) -> None:
    """The GPUs of an expired reservation may be another's, and stay his."""
    made = reserve(sessions, share(num_gpus=8))
    expire(sessions)
    other = reserve(sessions, share(num_gpus=8), holder="bob")

    with pytest.raises(ReservationNotFoundError, match="expired at"):
        reservations.change(
            sessions,
            "c",
            made.id,
            ReservationChange(expires_in=timedelta(hours=1)),
            if_match="*",
        )
    assert [one.holder for one in reservations.list_page(sessions, "c", PageRequest()).items] == [
        "bob"
    ]
    assert reservations.read(sessions, "c", other.id) == other
