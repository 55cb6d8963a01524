"""The storm: jobs are asked for, watched and cancelled while parts die, freeze and come back at random."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from service.base.errors import ServiceError
from service.embedded.children import last_words
from service.jobs.states import Status
from service.usecases.jobs.measurements import count_by_status
from service.usecases.stored import Sessions
from tests.chaos.client import Asked, Refused, cancel, client, in_thread, new_job, submit, watch
from tests.chaos.faults import Struck, strike
from tests.chaos.rig import Rig

SETTINGS = {
    "HEADROOM_HEARTBEAT_S": "0.5",
    "HEADROOM_RECONCILE_INTERVAL_S": "0.5",
    "HEADROOM_RERING_AFTER_S": "2",
    "HEADROOM_POLL_INTERVAL_S": "1",
    # One job may meet many faults, and a storm is no reason to fail it.
    "HEADROOM_MAX_ATTEMPTS": "100",
}
NUM_CLIENTS = 4
LONGEST_WORK_S = 1.0
LONGEST_PAUSE_S = 0.8
BETWEEN_FAULTS_S = 0.6
ENOUGH = 0.8
"""Of all jobs: when so many are over, the storm is, and the rest ends in calm."""
LONGEST_S = 900.0
CALM_WITHIN_S = 180.0
_TURN_S = 0.05
_ONE_WATCHED_IN, _ONE_CANCELLED_IN = 10, 12

Show = Callable[[int, int, Sequence[Struck]], None]
"""Jobs that are over, jobs in all, and the faults up to now."""


@dataclass(slots=True, kw_only=True)
class Storm:
    """What was asked, what struck, and what nobody should have seen."""

    jobs: list[Asked]
    strikes: list[Struck] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    _away: list[tuple[float, Struck]] = field(default_factory=list)

    def bring_back(self) -> None:
        """Bring back what has been away for long enough."""
        due = [entry for entry in self._away if entry[0] <= time.monotonic()]
        for entry in due:
            self._away.remove(entry)
            entry[1].back()

    def strike(self, dice: random.Random, rig: Rig, *, lease_s: float) -> None:
        """Let one more fault happen."""
        struck = strike(dice, rig, lease_s=lease_s)
        if struck is not None:
            self.strikes.append(struck)
            self._away.append((time.monotonic() + struck.back_in_s, struck))

    def look_around(self, rig: Rig) -> None:
        """Notice parts that ended without having been struck, and start them again."""
        away = {struck.part for _, struck in self._away}
        for part in rig.parts():
            if not part.is_up and part.name not in away:
                code = None if part.process is None else part.process.returncode
                self.violations.append(f"{part.name} ended by itself with code {code}{last_words(part.child)}")
                part.start()


def run_storm(rig: Rig, sessions: Sessions, *, seed: int, num_jobs: int, lease_s: float, show: Show) -> Storm:
    """Ask for ``num_jobs`` jobs while the dice of ``seed`` strike, then let the rest end in calm."""
    dice = random.Random(seed)  # noqa: S311 - dice, not a secret
    storm = Storm(jobs=[new_job(number, work_s=dice.uniform(0.0, LONGEST_WORK_S)) for number in range(1, num_jobs + 1)])
    clients = _Clients(url=rig.url, jobs=iter(storm.jobs), seed=seed)
    clients.start()
    done, next_strike, end = 0, time.monotonic(), time.monotonic() + LONGEST_S
    while (clients.are_asking or done < ENOUGH * num_jobs) and time.monotonic() < end:
        storm.bring_back()
        storm.look_around(rig)
        if time.monotonic() >= next_strike:
            storm.strike(dice, rig, lease_s=lease_s)
            next_strike = time.monotonic() + dice.expovariate(1 / BETWEEN_FAULTS_S)
            done = count_done(sessions, default=done)
            show(done, num_jobs, storm.strikes)
        time.sleep(_TURN_S)
    rig.heal()
    end = time.monotonic() + CALM_WITHIN_S
    while (done < num_jobs or clients.are_asking) and time.monotonic() < end:
        done = count_done(sessions, default=done)
        show(done, num_jobs, storm.strikes)
        time.sleep(_TURN_S)
    clients.finish()
    return storm


def count_done(sessions: Sessions, *, default: int) -> int:
    """Return how many jobs are over; ``default`` while the database is away."""
    try:
        counts = count_by_status(sessions)
    except ServiceError:
        return default
    return sum(number for status, number in counts.items() if status not in {Status.QUEUED, Status.RUNNING})


@dataclass(slots=True, kw_only=True)
class _Clients:
    url: str
    jobs: Iterator[Asked]
    seed: int
    _threads: list[threading.Thread] = field(default_factory=list)
    _followers: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Begin to ask, from several clients at once."""
        for number in range(NUM_CLIENTS):
            thread = threading.Thread(target=self._ask_for_all, args=(number,), daemon=True, name=f"client-{number}")
            self._threads.append(thread)
            thread.start()

    @property
    def are_asking(self) -> bool:
        """Whether a job is still to be asked for."""
        return any(thread.is_alive() for thread in self._threads)

    def finish(self) -> None:
        """Wait for everybody who asks, watches or cancels."""
        for thread in (*self._threads, *self._followers):
            thread.join(CALM_WITHIN_S)

    def _ask_for_all(self, number: int) -> None:
        dice = random.Random(f"{self.seed}-{number}")  # noqa: S311 - dice, not a secret
        with client(self.url) as http:
            while (job := self._next()) is not None:
                try:
                    submit(http, job)
                except Refused as error:
                    job.violations.append(f"job {job.number}: submit: {error}")
                    continue
                if dice.random() < 1 / _ONE_WATCHED_IN:
                    self._followers.append(in_thread(watch, self.url, job))
                if dice.random() < 1 / _ONE_CANCELLED_IN:
                    self._followers.append(in_thread(cancel, self.url, job))
                time.sleep(dice.uniform(0.0, LONGEST_PAUSE_S))

    def _next(self) -> Asked | None:
        with self._lock:
            return next(self.jobs, None)
