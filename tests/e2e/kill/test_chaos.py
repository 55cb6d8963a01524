"""Random kills with a fixed seed: whatever dies when, every job succeeds, and once."""

import random
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import psutil

from service.embedded.redis import running_redis
from service.jobs.bell import Bell, connect_to_ring
from service.jobs.states import Status
from service.settings import Settings
from service.usecases import measurements
from tests.job_builders import a_request
from tests.system import System
from tests.waiting import eventually

SEED = 20_261_121
NUM_JOBS = 12
NUM_WORKERS = 2
NUM_FAULTS = 12
IN_TIME_S = 120.0
# Kills are random, so one job may meet many of them.
SETTINGS = replace(Settings(), max_attempts=50)
Process = subprocess.Popen[bytes]


@dataclass(slots=True)
class Kept:
    """A process that is started again when it was killed."""

    start: Callable[[], Process]
    process: Process
    num_parts: int = 3
    """A worker in the middle of a job has a horse and a probe below it."""

    def is_ready(self) -> bool:
        """Tell whether it is whole."""
        return len(self.parts()) >= self.num_parts

    def parts(self) -> list[psutil.Process]:
        """Return it and everything below it: a worker's horse, and the probe."""
        leader = psutil.Process(self.process.pid)
        return [leader, *leader.children(recursive=True)]

    def kill_a_part(self, dice: random.Random) -> None:
        """Kill it or something below it, as the dice have it."""
        victim = dice.choice(self.parts())
        with suppress(psutil.NoSuchProcess):
            victim.send_signal(signal.SIGKILL)
        if victim.pid == self.process.pid:
            self.process.wait()
            self.process = self.start()


def test_nothing_is_lost_and_nothing_happens_twice(system: System) -> None:
    """Workers, horses, probes and the loop are killed at random while jobs run; each job has one result in the end."""
    dice = random.Random(SEED)  # noqa: S311  # dice, not a secret
    gate = system.dir / "gate"
    with running_redis(system.dir / "redis") as url:
        ring = Bell(connect_to_ring(url), job_timeout_s=60).ring
        request = a_request(script=[{"sample": 1}, {"wait_for": str(gate)}])
        submit = partial(measurements.submit, system.sessions, request, key="k", settings=SETTINGS, ring=ring)
        ids = [submit().id for _ in range(NUM_JOBS)]
        worker = partial(system.start_worker, redis_url=url)
        kept = [Kept(start=worker, process=worker()) for _ in range(NUM_WORKERS)]
        kept.append(Kept(start=system.start_reconcile, process=system.start_reconcile(), num_parts=1))

        for _ in range(NUM_FAULTS):
            eventually(lambda: all(one.is_ready() for one in kept), within_s=IN_TIME_S)
            dice.choice(kept).kill_a_part(dice)
        gate.touch()
        jobs = [system.wait_for_end(job_id) for job_id in ids]

    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert sum(job.attempt for job in jobs) > NUM_JOBS, "no fault hit an attempt, so this tested nothing"
    ends = [[status for status, _ in system.statuses(job_id) if Status(status).is_terminal] for job_id in ids]
    assert ends == [["succeeded"]] * NUM_JOBS
    assert all(job.result is not None and job.result.attempt == job.attempt for job in jobs)
