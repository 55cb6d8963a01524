"""State machine of a job; the queries apply it as compare-and-set.

queued ──claim──▶ running ──finish──▶ succeeded | failed | cancelled
  │  ▲               │
  │  └──attempt lost─┤   (lease over, process gone; while attempts and time are left)
  │                  └──attempt lost──▶ failed | cancelled
  ├──cancel──▶ cancelled
  ├──overdue─▶ failed   (nobody took it within QUEUE_LIMIT_S)
  └──finish──▶ succeeded …   (a late result, while nobody has claimed the next attempt)
"""

from dataclasses import dataclass
from enum import StrEnum

QUEUE_LIMIT_S = 7 * 24 * 3600.0
"""How long a job waits in the queue, from its submission or from the loss of its last attempt;
running has its own deadline.
"""

PRIORITY_S = 3600.0
"""What one step of priority is worth in the queue: a job goes before those of the next lower
priority that were asked for up to so many seconds earlier. So high goes before normal and normal
before low, and nobody waits for ever.
"""


class Status(StrEnum):
    """State of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether no state follows."""
        return self not in LIVE


LIVE = frozenset({Status.QUEUED, Status.RUNNING})
FINISHABLE = LIVE
"""A result is taken while its attempt is the newest, even when its lease ran out and the job went
back to the queue.
"""


class Lease(StrEnum):
    """State of an attempt's lease at a heartbeat."""

    HELD = "held"
    CANCELLED = "cancelled"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """Part of a job's row that decides its next state.

    ``attempt`` is the fencing token.
    """

    status: Status
    attempt: int
    max_attempts: int
    cancel_requested: bool = False
    overdue: bool = False


def get_status_after_lost_attempt(job: JobState) -> Status:
    """Return the next status of a job whose attempt was lost.

    The attempt ended without a word.
    """
    if job.cancel_requested:
        return Status.CANCELLED
    if job.overdue or job.attempt >= job.max_attempts:
        return Status.FAILED
    return Status.QUEUED


def get_lease(job: JobState | None, *, attempt: int) -> Lease:
    """Return the lease of ``attempt``.

    An attempt that nobody followed is still held, since its result would be taken.
    """
    if job is None or job.attempt != attempt or job.status not in FINISHABLE:
        return Lease.LOST
    return Lease.CANCELLED if job.cancel_requested else Lease.HELD


class ClaimState(StrEnum):
    """Whether a measurement that somebody brought along counts.

    A ``pending`` one waits for an operator; a ``held`` one is far from the answer, and is approved
    by its id alone. Only an ``approved`` one teaches.
    """

    PENDING = "pending"
    HELD = "held"
    APPROVED = "approved"
    WITHDRAWN = "withdrawn"
