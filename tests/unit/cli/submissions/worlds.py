"""Schedulers, servers and journals in which a submission may die."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx

from service.cli.submissions.journal import Entry, Journal
from service.cli.submissions.registry import SCHEDULERS
from service.cli.submissions.steps import Submitter
from tests.unit.cli.submissions.fakes import Reaper, Server

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
TAG = Entry(
    id="s1",
    scheduler="",
    server="",
    cluster="",
    holder="",
    payload="",
    placement={},
    lease_s=60,
    owner="ann",
).tag
JOBS = {
    "slurm": "1",
    "kubernetes": f"job/a-{TAG}",
    "ray": f"headroom-{TAG}",
    "skypilot": "1",
    "dstack": f"headroom-{TAG}",
}


@dataclass(kw_only=True)
class World:
    """Scheduler, server and journal of one case.

    Those of two users may share the first two.
    """

    word: str
    folder: Path
    state: Path
    owner: str = "ann"
    user: int = 1000
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
        entry = Entry(
            id="s1",
            scheduler=self.word,
            server="http://headroom",
            cluster="c",
            holder="ann",
            payload="",
            placement={"nodes": []},
            lease_s=900,
            owner=self.owner,
            target={"user": str(self.user)} if self.word == "slurm" else {},
        )
        payload = SCHEDULERS[self.word].prepare(DOCUMENTS[self.word], entry)
        return Journal(folder=self.folder).read("s1") or replace(entry, payload=payload)

    @property
    def num_submitted(self) -> int:
        """Jobs that the scheduler took."""
        path = self.state / "submitted"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def wait(self, seconds: int = 250) -> None:
        """Let time pass since the job was sent."""
        entry = self.entry
        if entry.sent_at is not None:
            Journal(folder=self.folder).write(replace(entry, sent_at=entry.sent_at - seconds))

    def set(self, name: str, value: str = "") -> None:
        """Tell the scheduler's stand-in something."""
        (self.state / name).write_text(value)


Make = Callable[..., World]
