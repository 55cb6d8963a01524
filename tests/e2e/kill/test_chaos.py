"""Random kills with a fixed seed: whatever dies when, every job succeeds, and once."""

import random
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import psutil
from sqlalchemy import text

from service.embedded.redis import running_redis
from service.jobs.bell import Bell, connect_to_ring
from service.jobs.states import Status
from service.settings import Settings
from service.usecases import measurements
from tests.e2e.kill.conftest import System
from tests.job_builders import a_request
from tests.waiting import eventually

SEED = 20_261_121
NUM_JOBS = 20
NUM_WORKERS = 2
NUM_FAULTS = 12
IN_TIME_S = 240.0
# Kills are random, so one job may meet many of them.
SETTINGS = replace(Settings(), max_attempts=50)


def test_nothing_is_lost_and_nothing_happens_twice(system: System) -> None:
    """Workers, horses, probes and the loop are killed at random while jobs run; each job has one result in the end."""
    dice = random.Random(SEED)  # noqa: S311  # dice, not a secret
    with running_redis(system.dir / "redis") as url:
        ring = Bell(connect_to_ring(url), job_timeout_s=60).ring
        ids = [
            measurements.submit(
                system.sessions, a_request(script=[{"sample": number}]), key="k", settings=SETTINGS, ring=ring
            ).id
            for number in range(NUM_JOBS)
        ]
        crew = {f"worker {number}": lambda: system.start_worker(redis_url=url) for number in range(NUM_WORKERS)}
        kept: dict[str, tuple[Callable[[], subprocess.Popen[bytes]], subprocess.Popen[bytes]]] = {}
        for name, start in {**crew, "reconcile": system.start_reconcile}.items():
            kept[name] = (start, start())

        for _ in range(NUM_FAULTS):
            # Something must have happened since the last fault, else the system is only killed while it starts.
            eventually(partial(has_moved, system, num_events(system)), within_s=IN_TIME_S)
            name = dice.choice(sorted(kept))
            start, process = kept[name]
            kill_part_of(process, dice)
            if process.poll() is not None:
                kept[name] = (start, start())
        eventually(lambda: all_over(system), within_s=IN_TIME_S)

    jobs = [system.read(job_id) for job_id in ids]
    assert {job.status for job in jobs} == {Status.SUCCEEDED}
    assert sum(job.attempt for job in jobs) > NUM_JOBS, "no fault hit an attempt, so this tested nothing"
    ends = [[status for status, _ in system.statuses(job_id) if Status(status).is_terminal] for job_id in ids]
    assert ends == [["succeeded"]] * NUM_JOBS
    assert all(job.result is not None and job.result.attempt == job.attempt for job in jobs)


def kill_part_of(process: "subprocess.Popen[bytes]", dice: random.Random) -> None:
    """Kill a process or, as the dice have it, one below it: the horse or the probe of a worker."""
    candidates = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    victim = dice.choice(candidates)
    try:
        victim.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return
    if victim.pid == process.pid:
        process.wait()


def all_over(system: System) -> bool:
    """Tell whether every job is over."""
    counts = measurements.count_by_status(system.sessions)
    return counts[Status.QUEUED] + counts[Status.RUNNING] == 0


def has_moved(system: System, seen: int) -> bool:
    """Tell whether there are events beyond the first ``seen``, or none can follow."""
    return num_events(system) > seen or all_over(system)


def num_events(system: System) -> int:
    """Return how much has happened."""
    with system.sessions() as session:
        return int(session.execute(text("SELECT count(*) FROM measurement_events")).scalar_one())
