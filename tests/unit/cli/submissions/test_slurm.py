"""What Slurm says of a job that it may have, may yet take, or has forgotten."""

from dataclasses import replace

import pytest

from service.cli.submissions.errors import SchedulerError, UncertainError
from service.cli.submissions.journal import Entry
from service.cli.submissions.scheduler import Sighting
from tests.unit.cli.submissions.fakes import KilledError
from tests.unit.cli.submissions.worlds import Make


def test_another_users_job_of_the_same_name_is_none(make: Make) -> None:
    """A user who calls a job as Headroom would has not submitted it."""
    ann = make()
    ann.submitter.submit(ann.entry)
    bob = make(beside=ann)

    seen = bob.submitter.scheduler.find(replace(ann.entry, target={"user": "1001"}))

    assert seen == Sighting(is_certain=True)


def test_a_client_that_fails_after_the_job_was_taken(make: Make) -> None:
    """The job is looked for before it is believed to be refused."""
    world = make()
    world.set("deaf")

    entry = world.submitter.submit(world.entry)

    assert (entry.job, world.num_submitted) == ("1", 1)


def test_a_refused_job_holds_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the scheduler will not have gives its GPUs back at once."""
    world = make()
    submitter = world.submitter
    monkeypatch.setattr(type(submitter.scheduler), "submit", _refuse)

    with pytest.raises(SchedulerError, match="sbatch failed with 1"):
        submitter.submit(world.entry)

    assert (world.server.live, world.entry.is_over) == ({}, True)


def _refuse(_scheduler: object, _entry: Entry) -> str:
    message = "sbatch failed with 1: invalid partition"
    raise SchedulerError(message)


def test_what_slurm_may_have_forgotten_is_not_submitted_again(make: Make) -> None:
    """Without accounting a job that was sent long ago is submitted only where somebody says so."""
    world = make(at=7, is_after=True)
    with pytest.raises(KilledError):
        world.submitter.submit(world.entry)
    world.set("forgotten")
    world.set("age", "0")
    assert (world.entry.sent_at is None, world.num_submitted) == (False, 1)
    with pytest.raises(UncertainError, match="--again"):
        world.submitter.submit(world.entry)
    still_one = world.num_submitted
    world.submitter.submit(world.entry, again=True)

    assert (still_one, world.num_submitted) == (1, 2)


def test_accounting_knows_what_the_controller_forgot(make: Make) -> None:
    """A job that sacct has ran, and its reservation ends."""
    world = make()
    world.submitter.submit(world.entry)
    for name, value in (("forgotten", ""), ("accounting", ""), ("state", "CANCELLED")):
        world.set(name, value)

    over = world.submitter.settle(world.entry)

    assert (over.is_over, world.server.live) == (True, {})
