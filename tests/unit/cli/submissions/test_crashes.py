"""A submission that dies at any step is one job after the next try, and holds no GPU for ever."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.base.server_refusals import ServerRefusalError
from service.cli.submissions.errors import SchedulerError, UncertainError
from service.cli.submissions.journal import Entry, Journal
from service.cli.submissions.registry import SCHEDULERS
from service.cli.submissions.steps import Submitter
from tests.unit.cli.submissions.fakes import SAMPLES, KilledError, Reaper, Server, install

DOCUMENTS = {
    "slurm": "#!/bin/sh\nsrun true\n",
    "kubernetes": {
        "kind": "List",
        "items": [
            {"kind": "ConfigMap", "metadata": {"name": "a"}},
            {"kind": "Job", "metadata": {"name": "a"}, "spec": {"configMap": {"name": "a"}}},
        ],
    },
    "ray": {"job": {"entrypoint": "python a.py", "files": {"a.py": ""}, "env_vars": {"A": "b"}}},
    "skypilot": {"name": "a", "resources": {"accelerators": "A100:1"}, "run": "true\n"},
    "dstack": {"type": "task", "name": "a", "env": ["A=b"], "commands": ["true"]},
}
JOBS = {
    "slurm": "1",
    "kubernetes": "job/a-s1",
    "ray": "headroom-s1",
    "skypilot": "1",
    "dstack": "headroom-s1",
}


@dataclass(kw_only=True)
class World:
    """Scheduler, server and journal of one case."""

    word: str
    folder: Path
    server: Server = field(default_factory=Server)
    reaper: Reaper = field(default_factory=Reaper)

    @property
    def submitter(self) -> Submitter:
        """The steps, by a process that has just started."""
        client = httpx.Client(
            transport=httpx.MockTransport(
                lambda request: self.reaper.pass_through(lambda: self.server.answer(request))
            ),
            base_url="http://headroom",
        )
        return Submitter(
            client=client,
            journal=Journal(folder=self.folder),
            scheduler=SCHEDULERS[self.word],
        )

    @property
    def entry(self) -> Entry:
        """What the journal has, else a new submission."""
        return Journal(folder=self.folder).read("s1") or Entry(
            id="s1",
            scheduler=self.word,
            server="http://headroom",
            cluster="c",
            holder="ann",
            payload=SCHEDULERS[self.word].prepare(DOCUMENTS[self.word], "s1"),
            placement={"nodes": []},
            lease_s=900,
        )

    @property
    def num_submitted(self) -> int:
        """Jobs that the scheduler took."""
        path = self.folder / "submitted"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def set(self, name: str, value: str = "") -> None:
        """Tell the scheduler's stand-in something."""
        (self.folder / name).write_text(value)


Make = Callable[..., World]


@pytest.fixture(name="make")
def make_worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make worlds, with every effect on the outside seen by their reaper."""
    programs = tmp_path / "bin"
    programs.mkdir()
    install(programs)
    current: list[World] = []
    run, write = subprocess.run, Journal.write

    def run_seen(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as subprocess has it
        path = f"{programs}:/usr/bin:/bin"
        environment = {
            "PATH": path,
            "STATE": str(current[-1].folder),
            "SAMPLES": str(SAMPLES),
        }
        command = [str(programs / arguments[0][0]), *arguments[0][1:]]
        return current[-1].reaper.pass_through(lambda: run(command, env=environment, **options))

    def write_seen(journal: Journal, entry: Entry) -> Entry:
        return current[-1].reaper.pass_through(lambda: write(journal, entry))

    monkeypatch.setattr("subprocess.run", run_seen)
    monkeypatch.setattr(Journal, "write", write_seen)

    def make(word: str = "slurm", **reaping: Any) -> World:  # noqa: ANN401 - of the reaper
        folder = tmp_path / str(len(current))
        folder.mkdir()
        current.append(World(word=word, folder=folder, reaper=Reaper(**reaping)))
        return current[-1]

    return make


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
            entry = world.submitter.settle(world.entry)
            unknown = [one for one in world.server.live if one != entry.reservation]
            linked = [one for one in world.server.live.values() if one.get("job")]
            ends.append((world.num_submitted, len(linked)))
            assert entry.is_over is (world.num_submitted == 0)
            assert len(unknown) <= (entry.reservation is None)

    assert set(ends) == {(0, 0), (1, 1)}


def test_a_client_that_fails_after_the_job_was_taken(make: Make) -> None:
    """The job is looked for before it is believed to be refused."""
    world = make()
    world.set("deaf")

    entry = world.submitter.submit(world.entry)

    assert (entry.job, world.num_submitted) == ("1", 1)


def test_what_was_never_sent_ends_without_its_scheduler(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look from cron needs no client for a job that no client has had."""
    world = make("ray")
    entry = Journal(folder=world.folder).write(world.entry)
    monkeypatch.setattr("subprocess.run", None)

    over = world.submitter.settle(entry)

    assert (over.is_over, over.job) == (True, None)


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

    assert [item["metadata"]["name"] for item in items] == ["a-s1", "a-s1"]
    assert items[1]["spec"]["configMap"] == {"name": "a-s1"}
    assert items[0]["metadata"]["labels"] == {"headroom.dev/submission": "s1"}
