"""The stop-watch: how long each recovery takes under the settings that are shipped, and a lease of ten seconds."""

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
from tests.chaos.rig import Part, until

LEASE_S = 10.0
SETTINGS = {"HEADROOM_LEASE_S": f"{LEASE_S:g}", "HEADROOM_MAX_ATTEMPTS": "100"}
NUM_SUBMITS = 200
WHOLE = 100
"""The percentile that is the maximum."""
AWAY_S = 3.0
_WORKER, _HORSE, _PROBE = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """What took how long; ``bound_s`` holds for every reading, or for the 99th percentile."""

    what: str
    seconds: Seconds
    bound_s: float | None = None
    percentile: int = WHOLE

    def at(self, percentile: int) -> float:
        """Return a percentile, the nearest rank."""
        ordered = sorted(self.seconds)
        return ordered[max(0, ceil(percentile / WHOLE * len(ordered)) - 1)]

    def holds(self) -> bool:
        """Whether the bound was kept."""
        return self.bound_s is None or self.at(self.percentile) <= self.bound_s

    def sentence(self) -> str:
        """Return what was broken."""
        return f"{self.what}: {self.at(self.percentile):.3f} s at percentile {self.percentile}, the bound is {self.bound_s} s"


Scenario = Callable[[Bench], list[Timed]]


def submits(bench: Bench) -> list[Timed]:
    """Ask for jobs with Redis there, gone, and silent."""
    found = []
    with bench.no_workers():
        worked_s = _worked_s(bench)
        seconds, jobs = bench.ask_for(NUM_SUBMITS)
        found.append(Timed(what="submit", seconds=seconds, bound_s=0.025, percentile=99))
        # On a machine that others use too, the wall clock tells of them.
        found.append(Timed(what="submit, processor time of the API", seconds=[(_worked_s(bench) - worked_s) / NUM_SUBMITS]))
        bench.drop(jobs)
        bench.rig.redis.kill()
        seconds, jobs = bench.ask_for(NUM_SUBMITS // 4)
        found.append(Timed(what="submit, Redis down", seconds=seconds, bound_s=0.6))
        bench.rig.redis.start()
        bench.drop(jobs)
        bench.rig.redis.freeze()
        seconds, jobs = bench.ask_for(NUM_SUBMITS // 4)
        found.append(Timed(what="submit, Redis silent", seconds=seconds, bound_s=0.6))
        bench.rig.redis.thaw()
        bench.drop(jobs)
    return found


def pickup(bench: Bench) -> list[Timed]:
    """Ask an idle system for one job at a time."""
    # A bell that found Redis silent rests for a moment; here it has rung again.
    bench.wait_for_end(bench.ask())
    seconds = []
    for _ in range(4 * bench.repeat):
        asked = time.time()
        job = bench.ask()
        seconds.append(bench.began(job) - asked)
        bench.wait_for_end(job)
    return [Timed(what="submit → begun", seconds=seconds)]


def kills(bench: Bench) -> list[Timed]:
    """Kill the horse, the probe, and the whole host of a running attempt."""
    lost_s = LEASE_S + 2.0
    return [
        Timed(what="horse killed → begun again", seconds=_again(bench, _kill_below(_HORSE)), bound_s=1.0),
        Timed(what="probe killed → begun again", seconds=_again(bench, _kill_below(_PROBE)), bound_s=1.0),
        Timed(what="worker killed → begun again", seconds=_again(bench, Part.kill), bound_s=lost_s),
        Timed(what="host gone → begun again", seconds=_again(bench, Part.kill_all), bound_s=lost_s),
        Timed(what="worker frozen → begun again", seconds=_again(bench, Part.freeze), bound_s=lost_s),
    ]


def gone(bench: Bench) -> list[Timed]:
    """Kill an idle worker and watch the list of workers."""
    seconds = []
    for _ in range(bench.repeat):
        victim = bench.rig.workers[0]
        assert victim.process is not None
        pid = victim.process.pid
        until(partial(_is_listed, bench, pid, "idle"), "the worker is not listed")
        victim.kill_all()
        begin = time.monotonic()
        until(partial(_is_listed, bench, pid, "gone"), "the worker is not seen to be gone")
        seconds.append(time.monotonic() - begin)
        bench.rig.heal()
    return [Timed(what="worker gone → /v1/workers says so", seconds=seconds, bound_s=LEASE_S + 1.0)]


def redis(bench: Bench) -> list[Timed]:
    """Take Redis away and give it back, empty; then let it fall silent."""
    back, queued, silent = [], [], []
    for _ in range(bench.repeat):
        bench.rig.redis.kill()
        asked = time.time()
        job = bench.ask()
        queued.append(bench.began(job) - asked)
        bench.wait_for_end(job)
        bench.rig.redis.start()
        begin = time.monotonic()
        until(partial(_all_listen, bench), "the workers do not listen")
        back.append(time.monotonic() - begin)
        bench.rig.redis.freeze()
        asked = time.time()
        job = bench.ask()
        silent.append(bench.began(job) - asked)
        bench.rig.redis.thaw()
        bench.wait_for_end(job)
        until(partial(_all_listen, bench), "the workers do not listen")
    return [
        Timed(what="Redis back → all workers listen", seconds=back, bound_s=15.0),
        Timed(what="Redis down: submit → begun", seconds=queued, bound_s=15.0),
        Timed(what="Redis silent: submit → begun", seconds=silent, bound_s=15.0),
    ]


def postgres(bench: Bench) -> list[Timed]:
    """Take Postgres away while probes end and a job waits, and give it back."""
    stored, begun, accepted = [], [], []
    running = len(bench.rig.workers)
    for _ in range(bench.repeat):
        with bench.held(running + 1) as (hold, jobs):
            for job in jobs[:running]:
                bench.began(job)
            bench.rig.postgres.kill(signal.SIGQUIT)
            hold.unlink()
            time.sleep(AWAY_S)
            bench.rig.postgres.start()
            back = time.time()
            begin = time.monotonic()
            following = bench.ask()
            accepted.append(time.monotonic() - begin)
            # Those that were given up in the middle of a heartbeat's transaction would be told by a second attempt.
            stored += [max(0.0, bench.told(job, Status.SUCCEEDED, attempt=1) - back) for job in jobs[:running]]
            begun.append(max(0.0, bench.began(jobs[running]) - back))
            bench.wait_for_end(following)
    return [
        Timed(what="Postgres back → result stored", seconds=stored, bound_s=5.0),
        Timed(what="Postgres back → queued job begun", seconds=begun, bound_s=5.0),
        Timed(what="Postgres back → submit accepted", seconds=accepted, bound_s=5.0),
    ]


def cancels(bench: Bench) -> list[Timed]:
    """Cancel probes that hear nothing: they ignore SIGTERM and sit in one long C call; then one that waits its turn."""
    running, queued = [], []
    for _ in range(bench.repeat):
        job = bench.ask(deaf=True)
        bench.began(job)
        bench.rig.busy_worker()
        asked = time.time()
        bench.drop([job])
        running.append(bench.told(job, Status.CANCELLED) - asked)
    with bench.no_workers():
        for _ in range(bench.repeat):
            job = bench.ask()
            asked = time.time()
            bench.drop([job])
            queued.append(bench.told(job, Status.CANCELLED) - asked)
    return [
        Timed(what="cancel of a probe in a C call → cancelled", seconds=running, bound_s=6.0),
        Timed(what="cancel of a queued job → cancelled", seconds=queued, bound_s=0.6),
    ]


SCENARIOS: tuple[Scenario, ...] = (submits, pickup, kills, gone, redis, postgres, cancels)


def _worked_s(bench: Bench) -> float:
    times = [psutil.Process(api.process.pid).cpu_times() for api in bench.rig.apis if api.process is not None]
    return float(sum(one.user + one.system for one in times))


def _again(bench: Bench, strike: Callable[[Part], None]) -> Seconds:
    seconds = []
    for _ in range(bench.repeat):
        with bench.held() as (_hold, (job,)):
            bench.began(job)
            victim = bench.rig.busy_worker()
            struck = time.time()
            strike(victim)
            seconds.append(bench.began(job, attempt=2) - struck)
        bench.rig.heal()
    return seconds


def _kill_below(index: int) -> Callable[[Part], None]:
    def strike(part: Part) -> None:
        os.kill(part.tree()[index].pid, signal.SIGKILL)

    return strike


def _is_listed(bench: Bench, pid: int, state: str) -> bool:
    seen = bench.http.get("/v1/workers").json()["items"]
    return any(worker["pid"] == pid and worker["state"] == state for worker in seen)


def _all_listen(bench: Bench) -> bool:
    alive = {part.process.pid for part in bench.rig.workers if part.process is not None and psutil.pid_exists(part.process.pid)}
    with closing(Redis.from_url(bench.rig.redis_url)) as connection:
        named = connection.smembers("rq:workers")
    return len(named) >= len(alive)  # type: ignore[arg-type]  # redis-py annotates both of its clients at once
