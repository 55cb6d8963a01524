"""What Slurm says of a job that it may have, may yet take, or has forgotten."""

from dataclasses import replace

import pytest

from service.cli.submissions.errors import SchedulerError, UncertainError
from service.cli.submissions.scheduler import Sighting
from tests.unit.cli.submissions.fakes import KilledError
from tests.unit.cli.submissions.worlds import Make

FAILED = "sbatch: error: Batch job submission failed"


def test_another_users_job_of_the_same_name_is_none(make: Make) -> None:
    """A user who calls a job as Headroom would has not submitted it."""
    ann = make()
    ann.submitter.submit(ann.entry)
    bob = make(beside=ann)

    seen = bob.submitter.scheduler.find(replace(ann.entry, target={"user": "1001"}, sent_at=None))

    assert seen == Sighting(is_certain=True)


def test_a_client_that_fails_after_the_job_was_taken(make: Make) -> None:
    """The job is looked for before it is believed to be refused."""
    world = make()
    world.set("deaf")

    entry = world.submitter.submit(world.entry)

    assert (entry.job, world.num_submitted) == ("1", 1)


def test_a_refused_job_holds_nothing(make: Make) -> None:
    """What the scheduler will not have gives its GPUs back at once, and may be sent at once."""
    world = make()
    world.set("failure", f"{FAILED}: Invalid partition name specified\n")
    with pytest.raises(SchedulerError, match=r"sbatch failed with 1: .* Invalid partition"):
        world.submitter.submit(world.entry)
    ended = (len(world.server.live), world.entry.is_over)
    (world.state / "failure").unlink()

    again = world.submitter.submit(world.entry)

    assert (ended, again.job, world.num_submitted) == ((0, True), "1", 1)


@pytest.mark.parametrize(
    "words",
    [
        f"{FAILED}: Socket timed out on send/recv operation",
        f"{FAILED}: Unable to contact slurm controller (receive failure)",
        f"{FAILED}: Unspecified error",
        "Killed",
    ],
)
def test_what_slurm_may_still_take_is_sent_once(make: Make, words: str) -> None:
    """A controller may hold a request that its client gave up: nobody sends another meanwhile, and
    a look links the job that came.
    """
    world = make()
    world.set("failure", f"{words}\n")
    with pytest.raises(SchedulerError, match="sbatch failed with 1"):
        world.submitter.submit(world.entry)
    (world.state / "failure").unlink()
    with pytest.raises(UncertainError, match="in a few minutes"):
        world.submitter.submit(world.entry)
    waiting = world.submitter.settle(world.entry)
    world.set("state", "PENDING")
    world.set("submitted", f"1000 --job-name={world.entry.mark} \n")

    entry = world.submitter.settle(world.entry)

    assert (waiting.is_over, waiting.job, len(world.server.live)) == (False, None, 1)
    assert (entry.job, [one.get("job") for one in world.server.live.values()]) == (
        "1",
        [{"scheduler": "slurm", "id": "1"}],
    )


@pytest.mark.parametrize(
    ("age", "has_accounting", "is_over"),
    [(219, True, False), (221, True, True), (221, False, True), (301, False, False)],
)
def test_what_never_came_is_over_once_it_would_have_come(
    make: Make, age: int, *, has_accounting: bool, is_over: bool
) -> None:
    """That is after what client and controller may take, and before the controller forgets."""
    world = make()
    world.set("failure", f"{FAILED}: Socket timed out on send/recv operation\n")
    with pytest.raises(SchedulerError, match="timed out"):
        world.submitter.submit(world.entry)
    if has_accounting:
        world.set("accounting")
    world.wait(age)

    entry = world.submitter.settle(world.entry)

    assert (entry.is_over, len(world.server.live)) == (is_over, 0 if is_over else 1)


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


def test_a_requeued_job_lives(make: Make) -> None:
    """Accounting may show what became of its first run; the controller has it in its queue."""
    world = make()
    world.submitter.submit(world.entry)
    world.set("accounting", "NODE_FAIL")
    world.set("state", "PENDING")

    entry = world.submitter.settle(world.entry)

    assert (entry.is_over, len(world.server.live)) == (False, 1)


def test_what_nobody_saw_for_a_day_is_not_looked_for(make: Make) -> None:
    """No lease is as long; whether it may be submitted again is still for its user to say."""
    world = make()
    world.set("failure", f"{FAILED}: Socket timed out on send/recv operation\n")
    with pytest.raises(SchedulerError, match="timed out"):
        world.submitter.submit(world.entry)
    (world.state / "failure").unlink()
    world.wait(86_401)

    entry = world.submitter.settle(world.entry)

    assert (entry.is_over, entry.job) == (True, None)
    with pytest.raises(UncertainError, match="--again"):
        world.submitter.submit(world.entry)
