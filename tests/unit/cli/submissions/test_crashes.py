"""A submission that dies at any step is one job after the next try, and holds no GPU for ever."""

import json

import pytest

from service.base.server_refusals import ServerRefusalError
from service.cli.submissions.journal import Journal
from service.cli.submissions.registry import SCHEDULERS
from tests.unit.cli.submissions.fakes import KilledError
from tests.unit.cli.submissions.worlds import JOBS, TAG, Make


@pytest.mark.parametrize("word", SCHEDULERS)
def test_the_next_try_ends_in_one_job(make: Make, word: str) -> None:
    """Whenever the first died: one job, one reservation that says which, and both end together."""
    worlds = []
    complete = make(word)
    complete.submitter.submit(complete.entry)
    for at in range(1, complete.reaper.seen + 1):
        for is_after in (False, True):
            world = make(word, at=at, is_after=is_after)
            with pytest.raises(KilledError):
                world.submitter.submit(world.entry)
            world.wait()
            entry = world.submitter.submit(world.entry)
            linked = [one.get("job") for one in world.server.live.values()]
            world.set("state", "COMPLETED")
            over = world.submitter.settle(entry)
            worlds.append((world.num_submitted, linked, over.is_over, len(world.server.live)))

    job = {"scheduler": word, "id": JOBS[word]}
    assert len(worlds) > 15
    assert worlds == [(1, [job], True, 0)] * len(worlds)


@pytest.mark.parametrize("word", SCHEDULERS)
def test_nobody_tries_again_and_nothing_is_lost(make: Make, word: str) -> None:
    """A look from cron links a job that came through, and ends what has none; a reservation that
    no journal knows ends with its lease.
    """
    ends = []
    complete = make(word)
    complete.submitter.submit(complete.entry)
    for at in range(1, complete.reaper.seen + 1):
        for is_after in (False, True):
            world = make(word, at=at, is_after=is_after)
            with pytest.raises(KilledError):
                world.submitter.submit(world.entry)
            if Journal(folder=world.folder).read("s1") is None:
                ends.append((world.num_submitted, 0))
                continue
            world.wait()
            entry = world.submitter.settle(world.entry)
            unknown = [one for one in world.server.live if one != entry.reservation]
            linked = [one for one in world.server.live.values() if one.get("job")]
            ends.append((world.num_submitted, len(linked)))
            assert entry.is_over is (world.num_submitted == 0)
            assert len(unknown) <= (entry.reservation is None)

    assert set(ends) == {(0, 0), (1, 1)}


def test_two_users_of_one_id_have_a_job_each(make: Make) -> None:
    """Neither the scheduler's job of another user nor their reservation is taken for one's own."""
    ann = make()
    first = ann.submitter.submit(ann.entry)
    bob = make(beside=ann)

    second = bob.submitter.submit(bob.entry)

    assert (first.job, second.job, bob.num_submitted) == ("1", "2", 2)
    assert {one["job"]["id"] for one in bob.server.live.values()} == {"1", "2"}


@pytest.mark.parametrize("word", ["kubernetes", "dstack"])
def test_names_of_a_shared_scheduler_say_whose_they_are(make: Make, word: str) -> None:
    """In one namespace, cluster or project the objects of two users have two names."""
    ann = make(word)

    entries = (ann.entry, make(word, beside=ann).entry)

    assert entries[0].payload != entries[1].payload
    assert entries[0].mark != entries[1].mark


def test_what_was_never_sent_ends_without_its_scheduler(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look from cron needs no client for a job that no client has had."""
    world = make("ray")
    entry = Journal(folder=world.folder).write(world.entry)
    monkeypatch.setattr("subprocess.run", None)

    over = world.submitter.settle(entry)

    assert (over.is_over, over.job) == (True, None)


def test_a_lost_reservation_is_made_anew(make: Make) -> None:
    """A job that lives is promised its GPUs again, under another key; full is told."""
    world = make()
    entry = world.submitter.submit(world.entry)
    world.server.expire()
    entry = world.submitter.settle(entry)
    assert (entry.attempt, list(world.server.live)) == (2, ["r2"])
    world.server.expire()
    world.server.is_full = True

    with pytest.raises(ServerRefusalError, match="gpus-not-free"):
        world.submitter.settle(entry)

    assert world.entry.is_over is False


def test_objects_of_one_submission_are_no_others(make: Make) -> None:
    """Names and what refers to them carry the id, and every object its label."""
    items = json.loads(make("kubernetes").entry.payload)["items"]

    assert [item["metadata"]["name"] for item in items] == [f"a-{TAG}", f"a-{TAG}"]
    assert items[1]["spec"]["configMap"] == {"name": f"a-{TAG}"}
    assert items[0]["metadata"]["labels"] == {"headroom.dev/submission": "s1"}
