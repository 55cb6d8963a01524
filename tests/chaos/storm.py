"""The storm: clients use the API while faults strike at random.

Jobs are submitted, watched and cancelled while parts die, freeze and come back.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from service.base.errors import ServiceError
from service.embedded.children import read_log_tail
from service.estimator.values.units import ceil_div
from service.jobs.states import Status
from service.usecases.stored import Sessions
from tests.chaos.client import (
    ClientJob,
    Refused,
    cancel,
    make_client,
    new_job,
    start_thread,
    submit,
    watch,
)
from tests.chaos.faults import FaultEvent, strike
from tests.chaos.invariants import HEEDED_WITHIN_S
from tests.chaos.rig import Rig
from tests.job_counts import count_by_status

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
UNENDING_WORK_S = 4 * HEEDED_WITHIN_S
"""Work of every second job that is cancelled: one that ends has not heeded it."""
LONGEST_PAUSE_S = 0.8
BETWEEN_FAULTS_S = 0.6
CALM_SHARE = 0.8
"""Share of all jobs that are over when the storm ends; the others end in calm."""
LONGEST_S = 900.0
CALM_WITHIN_S = 180.0
_TURN_S = 0.05
_ONE_WATCHED_IN, _ONE_CANCELLED_IN, _ONE_REPEATED_IN = 10, 12, 4

Show = Callable[[int, int, Sequence[FaultEvent]], None]
"""Jobs that are over, jobs in all, and the faults up to now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """Numbers of the jobs that are watched, cancelled and submitted again."""

    watched: frozenset[int]
    cancelled: frozenset[int]
    repeated: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How quickly a storm goes.

    Clients submit no further job while ``max_open`` are not over, so that a long storm has no
    longer queue than a short one.
    """

    between_faults_s: float = BETWEEN_FAULTS_S
    longest_work_s: float = LONGEST_WORK_S
    longest_pause_s: float = LONGEST_PAUSE_S
    longest_s: float = LONGEST_S
    max_open: int = 40


QUICK = Pace()


@dataclass(slots=True, kw_only=True)
class Storm:
    """The jobs, the faults and the violations of a storm."""

    jobs: list[ClientJob]
    roles: Roles
    strikes: list[FaultEvent] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    _away: list[tuple[float, FaultEvent]] = field(default_factory=list)

    def bring_back(self) -> None:
        """Bring back what has been away for long enough."""
        due = [entry for entry in self._away if entry[0] <= time.monotonic()]
        for entry in due:
            self._away.remove(entry)
            entry[1].back()

    def strike(self, dice: random.Random, rig: Rig, *, lease_s: float) -> None:
        """Let one more fault happen."""
        fault = strike(dice, rig, lease_s=lease_s)
        if fault is not None:
            self.strikes.append(fault)
            self._away.append((time.monotonic() + fault.back_in_s, fault))

    def restart_ended_parts(self, rig: Rig) -> None:
        """Restart parts that ended without a fault, as violations."""
        away = {fault.part for _, fault in self._away}
        for part in rig.parts():
            if not part.is_up and part.name not in away:
                code = None if part.process is None else part.process.returncode
                self.violations.append(
                    f"{part.name} ended by itself with code {code}{read_log_tail(part.child)}"
                )
                part.start()


def run_storm(  # noqa: PLR0913 - of what, of how much, and how quickly
    rig: Rig,
    sessions: Sessions,
    *,
    seed: int,
    num_jobs: int,
    lease_s: float,
    show: Show,
    pace: Pace = QUICK,
) -> Storm:
    """Submit ``num_jobs`` jobs while faults strike, then let them end in calm.

    ``seed`` is that of the random faults.
    """
    dice = random.Random(seed)  # noqa: S311 - dice, not a secret
    roles = draw_roles(dice, range(1, num_jobs + 1))
    unending = set(sorted(roles.cancelled)[::2])
    storm = Storm(
        jobs=[
            new_job(
                number,
                work_s=UNENDING_WORK_S
                if number in unending
                else dice.uniform(0.0, pace.longest_work_s),
            )
            for number in range(1, num_jobs + 1)
        ],
        roles=roles,
    )
    clients = _Clients(url=rig.url, jobs=iter(storm.jobs), roles=roles, seed=seed, pace=pace)
    clients.start()
    done, next_strike, end = 0, time.monotonic(), time.monotonic() + pace.longest_s
    while (clients.is_submitting or done < CALM_SHARE * num_jobs) and time.monotonic() < end:
        storm.bring_back()
        storm.restart_ended_parts(rig)
        if time.monotonic() >= next_strike:
            storm.strike(dice, rig, lease_s=lease_s)
            next_strike = time.monotonic() + dice.expovariate(1 / pace.between_faults_s)
            done = clients.num_over = count_done(sessions, default=done)
            show(done, num_jobs, storm.strikes)
        time.sleep(_TURN_S)
    rig.heal()
    clients.stop_beginning(is_late=time.monotonic() >= end)
    end = time.monotonic() + CALM_WITHIN_S
    while (done < clients.num_submitted or clients.is_submitting) and time.monotonic() < end:
        done = clients.num_over = count_done(sessions, default=done)
        show(done, num_jobs, storm.strikes)
        time.sleep(_TURN_S)
    storm.violations += clients.finish()
    storm.jobs = storm.jobs[: clients.num_submitted]
    return storm


def draw_roles(dice: random.Random, numbers: Sequence[int]) -> Roles:
    """Draw the jobs of each role, one at least of each."""
    watched, cancelled, repeated = (
        frozenset(dice.sample(numbers, ceil_div(len(numbers), one_in)))
        for one_in in (_ONE_WATCHED_IN, _ONE_CANCELLED_IN, _ONE_REPEATED_IN)
    )
    return Roles(watched=watched, cancelled=cancelled, repeated=repeated)


def join_all(threads: Sequence[threading.Thread], *, within_s: float) -> list[str]:
    """Wait for threads, and return those that go on as violations."""
    end = time.monotonic() + within_s
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return [
        f"{thread.name} was not answered within {within_s:g} s of calm"
        for thread in threads
        if thread.is_alive()
    ]


def count_done(sessions: Sessions, *, default: int) -> int:
    """Count the jobs that are over; ``default`` without a database."""
    try:
        counts = count_by_status(sessions)
    except ServiceError:
        return default
    return sum(
        number for status, number in counts.items() if status not in {Status.QUEUED, Status.RUNNING}
    )


@dataclass(slots=True, kw_only=True)
class _Clients:
    url: str
    jobs: Iterator[ClientJob]
    roles: Roles
    seed: int
    pace: Pace
    num_over: int = 0
    """Jobs that are over, as they were counted last."""
    num_submitted: int = 0
    _is_late: bool = False
    _threads: list[threading.Thread] = field(default_factory=list)
    _followers: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Begin to submit from several clients at once."""
        for number in range(NUM_CLIENTS):
            thread = threading.Thread(
                target=self._submit_all, args=(number,), daemon=True, name=f"client-{number}"
            )
            self._threads.append(thread)
            thread.start()

    @property
    def is_submitting(self) -> bool:
        """Whether a job is still to be submitted."""
        return any(thread.is_alive() for thread in self._threads)

    def stop_beginning(self, *, is_late: bool) -> None:
        """Begin no further job where the storm has lasted its time."""
        self._is_late = is_late

    def finish(self) -> list[str]:
        """Wait for all clients, watchers and cancellations; return violations."""
        return join_all((*self._threads, *self._followers), within_s=CALM_WITHIN_S)

    def _submit_all(self, number: int) -> None:
        dice = random.Random(f"{self.seed}-{number}")  # noqa: S311 - dice, not a secret
        with make_client(self.url) as http:
            while (job := self._next()) is not None:
                try:
                    submit(http, job)
                except Refused as error:
                    job.violations.append(f"job {job.number}: submit: {error}")
                    continue
                for role, numbers in (
                    (submit, self.roles.repeated),
                    (watch, self.roles.watched),
                    (cancel, self.roles.cancelled),
                ):
                    if job.number in numbers:
                        self._followers.append(start_thread(role, self.url, job))
                time.sleep(dice.uniform(0.0, self.pace.longest_pause_s))

    def _next(self) -> ClientJob | None:
        with self._lock:
            while self.num_submitted - self.num_over >= self.pace.max_open and not self._is_late:
                time.sleep(_TURN_S)
            job = None if self._is_late else next(self.jobs, None)
            self.num_submitted += job is not None
            return job
