"""Shared steps of the timed recoveries.

They submit jobs that hold still, and read times from the events of a job.
"""

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
from tests.chaos.client import ClientJob, cancel, new_job, submit
from tests.chaos.rig import Rig, wait_until

Seconds = list[float]
_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A calm rig with a client of its API and its database.

    ``repeat`` is how often each scenario is repeated.
    """

    rig: Rig
    http: httpx.Client
    sessions: Sessions
    dir: Path
    repeat: int

    @contextmanager
    def run_held_jobs(self, num_jobs: int = 1) -> Iterator[tuple[Path, Sequence[ClientJob]]]:
        """Submit jobs whose probes hold still until a file is gone.

        They run to their end when the block is left.
        """
        hold = self.dir / uuid4().hex
        hold.touch()
        jobs = [self.submit_job(hold=str(hold)) for _ in range(num_jobs)]
        try:
            yield hold, jobs
        finally:
            hold.unlink(missing_ok=True)
            for job in jobs:
                self.wait_for_end(job)

    def submit_job(self, **orders: object) -> ClientJob:
        """Submit one job."""
        job = new_job(next(_numbers))
        submit(self.http, job, expected.build_request(job.number, **orders))  # type: ignore[arg-type]  # its own keywords
        return job

    def submit_jobs(self, num_jobs: int) -> tuple[Seconds, list[ClientJob]]:
        """Submit jobs and return the seconds of each submission."""
        seconds, jobs = [], []
        for _ in range(num_jobs):
            begin = time.perf_counter()
            jobs.append(self.submit_job())
            seconds.append(time.perf_counter() - begin)
        return seconds, jobs

    def cancel_jobs(self, jobs: Sequence[ClientJob]) -> None:
        """Cancel jobs."""
        for job in jobs:
            cancel(self.http, job)

    def wait_for_start(self, job: ClientJob, *, attempt: int = 1) -> float:
        """Wait for the start of an attempt and return its time.

        It is in seconds since the epoch, by the database's clock.
        """
        return self.wait_for_status(job, Status.RUNNING, attempt=attempt)

    def wait_for_status(
        self, job: ClientJob, status: Status, *, attempt: int | None = None
    ) -> float:
        """Wait for a status and return when it was reached."""
        reached: list[StoredEvent] = []

        def is_reached() -> bool:
            reached[:] = [
                event
                for event in self._events(job)
                if event.kind == "status"
                and event.data["status"] == status.value
                and attempt in {None, event.data["attempt"]}
            ]
            return bool(reached)

        wait_until(is_reached, f"job {job.number} is not {status.value}")
        return reached[0].created_at.timestamp()

    def wait_for_end(self, job: ClientJob) -> None:
        """Wait until a job is over."""
        wait_until(
            lambda: any(_is_end(event) for event in self._events(job)),
            f"job {job.number} is not over",
        )

    @contextmanager
    def stop_workers(self) -> Iterator[None]:
        """Stop all workers for the length of a block."""
        for worker in self.rig.workers:
            worker.kill_all()
        try:
            yield
        finally:
            self.rig.heal()

    def _events(self, job: ClientJob) -> Sequence[StoredEvent]:
        with suppress(ServiceError):
            return measurements.list_events_after(self.sessions, UUID(job.id), seq=0).events
        return ()


def _is_end(event: StoredEvent) -> bool:
    return event.kind == "status" and Status(str(event.data["status"])).is_terminal
