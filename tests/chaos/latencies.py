"""Times of each recovery, under the shipped settings.

The lease is ten seconds.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from math import ceil

import psutil
from redis import Redis

from service.jobs.states import Status
from tests.chaos.bench import Bench, Seconds
from tests.chaos.parts import Part
from tests.chaos.rig import wait_until

LEASE_S = 10.0
SETTINGS = {"HEADROOM_LEASE_S": f"{LEASE_S:g}", "HEADROOM_MAX_ATTEMPTS": "100"}
NUM_SUBMITS = 200
MAXIMUM = 100
"""The percentile that is the maximum."""
AWAY_S = 3.0
_WORKER, _JOB_PROCESS, _PROBE = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times of one recovery.

    ``bound_s`` holds for every reading, or for the 99th percentile.
    """

    what: str
    seconds: Seconds
    bound_s: float | None = None
    percentile: int = MAXIMUM

    def at(self, percentile: int) -> float:
        """Return a percentile by nearest rank."""
        ordered = sorted(self.seconds)
        return ordered[max(0, ceil(percentile / MAXIMUM * len(ordered)) - 1)]

    def holds(self) -> bool:
        """Return whether the times are within the bound."""
        return self.bound_s is None or self.at(self.percentile) <= self.bound_s

    def sentence(self) -> str:
        """Describe the times and their bound."""
        return (
            f"{self.what}: {self.at(self.percentile):.3f} s at percentile {self.percentile}, the "
            f"bound is {self.bound_s} s"
        )


Scenario = Callable[[Bench], list[Timing]]


def time_submits(bench: Bench) -> list[Timing]:
    """Submit jobs with Redis up, down, and silent."""
    timings = []
    with bench.stop_workers():
        cpu_s = _measure_cpu_s(bench)
        seconds, jobs = bench.submit_jobs(NUM_SUBMITS)
        timings.append(Timing(what="submit", seconds=seconds, bound_s=0.025, percentile=99))
        # On a machine that others use too, the wall clock tells of them.
        timings.append(
            Timing(
                what="submit, processor time of the API",
                seconds=[(_measure_cpu_s(bench) - cpu_s) / NUM_SUBMITS],
            ),
        )
        bench.cancel_jobs(jobs)
        bench.rig.redis.kill()
        seconds, jobs = bench.submit_jobs(NUM_SUBMITS // 4)
        timings.append(Timing(what="submit, Redis down", seconds=seconds, bound_s=0.6))
        bench.rig.redis.start()
        bench.cancel_jobs(jobs)
        bench.rig.redis.freeze()
        seconds, jobs = bench.submit_jobs(NUM_SUBMITS // 4)
        timings.append(Timing(what="submit, Redis silent", seconds=seconds, bound_s=0.6))
        bench.rig.redis.thaw()
        bench.cancel_jobs(jobs)
    return timings


def time_pickup(bench: Bench) -> list[Timing]:
    """Submit one job at a time to an idle system."""
    # A notifier that found Redis silent rests for a moment; here it is at work again.
    bench.wait_for_end(bench.submit_job())
    seconds = []
    for _ in range(4 * bench.repeat):
        submitted_at = time.time()
        job = bench.submit_job()
        seconds.append(bench.wait_for_start(job) - submitted_at)
        bench.wait_for_end(job)
    return [Timing(what="submit → begun", seconds=seconds)]


def time_kills(bench: Bench) -> list[Timing]:
    """Kill the process, probe, worker and host of a running attempt."""
    lost_s = LEASE_S + 2.0
    return [
        Timing(
            what="job process killed → begun again",
            seconds=_time_restarts(bench, _make_killer(_JOB_PROCESS)),
            bound_s=1.0,
        ),
        Timing(
            what="probe killed → begun again",
            seconds=_time_restarts(bench, _make_killer(_PROBE)),
            bound_s=1.0,
        ),
        Timing(
            what="worker killed → begun again",
            seconds=_time_restarts(bench, Part.kill),
            bound_s=lost_s,
        ),
        Timing(
            what="host gone → begun again",
            seconds=_time_restarts(bench, Part.kill_all),
            bound_s=lost_s,
        ),
        Timing(
            what="worker frozen → begun again",
            seconds=_time_restarts(bench, Part.freeze),
            bound_s=lost_s,
        ),
    ]


def time_lost_worker(bench: Bench) -> list[Timing]:
    """Kill an idle worker and watch the list of workers."""
    seconds = []
    for _ in range(bench.repeat):
        victim = bench.rig.workers[0]
        assert victim.process is not None
        pid = victim.process.pid
        wait_until(partial(_is_listed, bench, pid, "idle"), "the worker is not listed")
        victim.kill_all()
        begin = time.monotonic()
        wait_until(partial(_is_listed, bench, pid, "gone"), "the worker is not seen to be gone")
        seconds.append(time.monotonic() - begin)
        bench.rig.heal()
    return [
        Timing(what="worker gone → /v1/workers says so", seconds=seconds, bound_s=LEASE_S + 1.0)
    ]


def time_redis(bench: Bench) -> list[Timing]:
    """Kill Redis and start it again, empty; then freeze it."""
    back, queued, silent = [], [], []
    for _ in range(bench.repeat):
        bench.rig.redis.kill()
        submitted_at = time.time()
        job = bench.submit_job()
        queued.append(bench.wait_for_start(job) - submitted_at)
        bench.wait_for_end(job)
        bench.rig.redis.start()
        begin = time.monotonic()
        wait_until(partial(_are_all_listening, bench), "the workers do not listen")
        back.append(time.monotonic() - begin)
        bench.rig.redis.freeze()
        submitted_at = time.time()
        job = bench.submit_job()
        silent.append(bench.wait_for_start(job) - submitted_at)
        bench.rig.redis.thaw()
        bench.wait_for_end(job)
        wait_until(partial(_are_all_listening, bench), "the workers do not listen")
    return [
        Timing(what="Redis back → all workers listen", seconds=back, bound_s=15.0),
        Timing(what="Redis down: submit → begun", seconds=queued, bound_s=15.0),
        Timing(what="Redis silent: submit → begun", seconds=silent, bound_s=15.0),
    ]


def time_postgres(bench: Bench) -> list[Timing]:
    """Stop Postgres while probes end and a job waits, then restart."""
    stored, begun, accepted = [], [], []
    running = len(bench.rig.workers)
    for _ in range(bench.repeat):
        with bench.run_held_jobs(running + 1) as (hold, jobs):
            for job in jobs[:running]:
                bench.wait_for_start(job)
            bench.rig.postgres.kill(signal.SIGQUIT)
            hold.unlink()
            time.sleep(AWAY_S)
            bench.rig.postgres.start()
            back = time.time()
            begin = time.monotonic()
            following = bench.submit_job()
            accepted.append(time.monotonic() - begin)
            # Those that were given up in the middle of a heartbeat's transaction would be told by a
            # second attempt.
            stored += [
                max(0.0, bench.wait_for_status(job, Status.SUCCEEDED, attempt=1) - back)
                for job in jobs[:running]
            ]
            begun.append(max(0.0, bench.wait_for_start(jobs[running]) - back))
            bench.wait_for_end(following)
    return [
        Timing(what="Postgres back → result stored", seconds=stored, bound_s=5.0),
        Timing(what="Postgres back → queued job begun", seconds=begun, bound_s=5.0),
        Timing(what="Postgres back → submit accepted", seconds=accepted, bound_s=5.0),
    ]


def time_cancels(bench: Bench) -> list[Timing]:
    """Cancel probes in a C call that ignore SIGTERM, then queued ones."""
    running, queued = [], []
    for _ in range(bench.repeat):
        job = bench.submit_job(deaf=True)
        bench.wait_for_start(job)
        bench.rig.busy_worker()
        submitted_at = time.time()
        bench.cancel_jobs([job])
        running.append(bench.wait_for_status(job, Status.CANCELLED) - submitted_at)
    with bench.stop_workers():
        for _ in range(bench.repeat):
            job = bench.submit_job()
            submitted_at = time.time()
            bench.cancel_jobs([job])
            queued.append(bench.wait_for_status(job, Status.CANCELLED) - submitted_at)
    return [
        Timing(what="cancel of a probe in a C call → cancelled", seconds=running, bound_s=6.0),
        Timing(what="cancel of a queued job → cancelled", seconds=queued, bound_s=0.6),
    ]


SCENARIOS: tuple[Scenario, ...] = (
    time_submits,
    time_pickup,
    time_kills,
    time_lost_worker,
    time_redis,
    time_postgres,
    time_cancels,
)


def _measure_cpu_s(bench: Bench) -> float:
    times = [
        psutil.Process(api.process.pid).cpu_times()
        for api in bench.rig.apis
        if api.process is not None
    ]
    return float(sum(cpu.user + cpu.system for cpu in times))


def _time_restarts(bench: Bench, strike: Callable[[Part], None]) -> Seconds:
    seconds = []
    for _ in range(bench.repeat):
        with bench.run_held_jobs() as (_hold, (job,)):
            bench.wait_for_start(job)
            victim = bench.rig.busy_worker()
            struck_at = time.time()
            strike(victim)
            seconds.append(bench.wait_for_start(job, attempt=2) - struck_at)
        bench.rig.heal()
    return seconds


def _make_killer(index: int) -> Callable[[Part], None]:
    def strike(part: Part) -> None:
        os.kill(part.tree()[index].pid, signal.SIGKILL)

    return strike


def _is_listed(bench: Bench, pid: int, state: str) -> bool:
    workers = bench.http.get("/v1/workers").json()["items"]
    return any(worker["pid"] == pid and worker["state"] == state for worker in workers)


def _are_all_listening(bench: Bench) -> bool:
    alive = {
        part.process.pid
        for part in bench.rig.workers
        if part.process is not None and psutil.pid_exists(part.process.pid)
    }
    with closing(Redis.from_url(bench.rig.redis_url)) as connection:
        named = connection.smembers("rq:workers")
    return len(named) >= len(alive)  # type: ignore[arg-type]  # redis-py annotates both of its clients at once
