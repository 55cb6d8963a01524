"""What the stop-watch's scenarios share: asking for jobs that hold still, and reading times from the events of a job."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from uuid import UUID, uuid4

import httpx

from service.base.errors import ServiceError
from service.db.records.measurements import StoredEvent
from service.jobs.states import Status
from service.usecases.jobs import measurements
from service.usecases.stored import Sessions
from tests.chaos import expected
from tests.chaos.client import Asked, cancel, new_job, submit
from tests.chaos.rig import Rig, until

Seconds = list[float]
_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A calm rig, a client of its API, its database, and how often each scenario is repeated."""

    rig: Rig
    http: httpx.Client
    sessions: Sessions
    dir: Path
    repeat: int

    @contextmanager
    def held(self, number_of_jobs: int = 1) -> Iterator[tuple[Path, Sequence[Asked]]]:
        """Ask for jobs whose probes hold still until a file is gone; they run to their end when the block is left."""
        hold = self.dir / uuid4().hex
        hold.touch()
        jobs = [self.ask(hold=str(hold)) for _ in range(number_of_jobs)]
        try:
            yield hold, jobs
        finally:
            hold.unlink(missing_ok=True)
            for job in jobs:
                self.wait_for_end(job)

    def ask(self, **orders: object) -> Asked:
        """Ask for one job."""
        job = new_job(next(_numbers))
        submit(self.http, job, expected.request(job.number, **orders))  # type: ignore[arg-type]  # its own keywords
        return job

    def ask_for(self, number_of_jobs: int) -> tuple[Seconds, list[Asked]]:
        """Return how long each of so many submissions took."""
        seconds, jobs = [], []
        for _ in range(number_of_jobs):
            begin = time.perf_counter()
            jobs.append(self.ask())
            seconds.append(time.perf_counter() - begin)
        return seconds, jobs

    def drop(self, jobs: Sequence[Asked]) -> None:
        """Cancel jobs that nobody waits for."""
        for job in jobs:
            cancel(self.http, job)

    def began(self, job: Asked, *, attempt: int = 1) -> float:
        """Return when an attempt began, once it has; seconds since the epoch, by the database's clock."""
        return self.told(job, Status.RUNNING, attempt=attempt)

    def told(self, job: Asked, status: Status, *, attempt: int | None = None) -> float:
        """Return when a status was reached, once it is."""
        found: list[StoredEvent] = []

        def is_told() -> bool:
            found[:] = [
                event
                for event in self._events(job)
                if event.kind == "status" and event.data["status"] == status.value and attempt in {None, event.data["attempt"]}
            ]
            return bool(found)

        until(is_told, f"job {job.number} is not {status.value}")
        return found[0].created_at.timestamp()

    def wait_for_end(self, job: Asked) -> None:
        """Return when a job is over."""
        until(lambda: any(_is_end(event) for event in self._events(job)), f"job {job.number} is not over")

    @contextmanager
    def no_workers(self) -> Iterator[None]:
        """Let nobody work for the length of a block."""
        for worker in self.rig.workers:
            worker.kill_all()
        try:
            yield
        finally:
            self.rig.heal()

    def _events(self, job: Asked) -> Sequence[StoredEvent]:
        with suppress(ServiceError):
            return measurements.events_after(self.sessions, UUID(job.id), seq=0).events
        return ()


def _is_end(event: StoredEvent) -> bool:
    return event.kind == "status" and Status(str(event.data["status"])).is_terminal
