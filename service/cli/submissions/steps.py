"""Steps of a submission, each safe to repeat.

Reserve, hand over, link, extend, release: the journal says before each step what may have happened
after it, and the scheduler, asked by the mark, says what did. A reservation is a lease, extended
only while the job is seen: who dies leaves GPUs held until its end at most.
"""

import time
from dataclasses import dataclass, replace

import httpx

from service.base.server_refusals import ServerRefusalError
from service.cli.submissions import promises
from service.cli.submissions.errors import (
    RefusedError,
    SchedulerError,
    SubmissionError,
    UncertainError,
)
from service.cli.submissions.journal import Entry, Journal
from service.cli.submissions.scheduler import Scheduler, Sighting

_MAX_ATTEMPTS = 5
_LOOKED_FOR_S = 86_400
"""No lease is as long: after it, nothing is held for a job that nobody has seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitter:
    """Steps of a submission, which the caller has locked in the journal."""

    client: httpx.Client
    journal: Journal
    scheduler: Scheduler

    def submit(self, entry: Entry, *, again: bool = False) -> Entry:
        """Bring a job to its scheduler, at most once.

        Raises UncertainError where it may be there already; ``again`` submits it then.
        """
        seen = self.scheduler.find(entry)
        if seen.job is None and entry.job is None:
            if entry.sent_at is not None and not seen.is_certain and not again:
                raise _make_uncertain_error(entry)
            entry = self._reserve(replace(entry, is_over=False))
            entry = self.journal.write(replace(entry, sent_at=time.time()))
            seen = self._hand_over(entry)
        return self._keep(entry, seen)

    def settle(self, entry: Entry) -> Entry:
        """Extend the reservation of a job that lives, and end any other."""
        if entry.sent_at is None and entry.job is None:
            # Nobody need ask a scheduler, whose client may not even be here.
            return self._keep(entry, Sighting(is_certain=True))
        seen = self.scheduler.find(entry)
        if seen.job is None and entry.job is None and not seen.is_certain:
            # Its lease runs out by itself.
            is_old = time.time() - (entry.sent_at or 0.0) > _LOOKED_FOR_S
            return self.journal.write(replace(entry, is_over=True)) if is_old else entry
        return self._keep(entry, seen)

    def _reserve(self, entry: Entry) -> Entry:
        """Return the entry with a reservation that lives."""
        if entry.reservation is not None and promises.extend(self.client, entry):
            return entry
        if entry.reservation is not None:
            entry = replace(entry, reservation=None, attempt=entry.attempt + 1)
        for _ in range(_MAX_ATTEMPTS):
            # The key of an attempt is written down before the server hears of it.
            entry = self.journal.write(entry)
            try:
                reservation = promises.reserve(self.client, entry)
            except ServerRefusalError:
                if entry.job is None:
                    self.journal.write(replace(entry, is_over=True))
                raise
            if reservation is not None:
                return self.journal.write(replace(entry, reservation=reservation))
            entry = replace(entry, attempt=entry.attempt + 1)
        message = f"submission {entry.id}: its reservations end as soon as they are made"
        raise SubmissionError(message)

    def _hand_over(self, entry: Entry) -> Sighting:
        try:
            job = self.scheduler.submit(entry)
        except RefusedError:
            promises.release(self.client, entry)
            self.journal.write(replace(entry, sent_at=None, is_over=True))
            raise
        except SchedulerError:
            # A client may fail after its scheduler has taken the job.
            seen = self.scheduler.find(entry)
            if seen.job is not None:
                return seen
            if seen.is_certain:
                promises.release(self.client, entry)
                self.journal.write(replace(entry, is_over=True))
            raise
        return Sighting(job=job, is_alive=True)

    def _keep(self, entry: Entry, seen: Sighting) -> Entry:
        """Link a job that lives to its reservation, or end both."""
        if seen.job is None or not seen.is_alive:
            promises.release(self.client, entry)
            return self.journal.write(replace(entry, job=entry.job or seen.job, is_over=True))
        entry = self.journal.write(replace(entry, job=seen.job, is_over=False))
        if entry.reservation is None or not promises.extend(self.client, entry):
            entry = self._reserve(entry)
            promises.extend(self.client, entry)
        return entry


def _make_uncertain_error(entry: Entry) -> UncertainError:
    message = (
        f"{entry.scheduler} was asked to take submission {entry.id} and does not know it: it is "
        "still on its way (look again in a few minutes), never came, or ran and is forgotten; if "
        "you know that it never ran and does not come, add --again"
    )
    return UncertainError(message)
