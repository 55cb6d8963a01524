"""Retention of growing data.

Progress, samples and artifacts of ended measurements, and the log of changes, are deleted after a
time.

What was measured, calibrations, models, clusters and keys are never deleted: answers rest on them.
"""

from dataclasses import dataclass
from datetime import timedelta

from service.db.queries import retention as queries
from service.db.session import transaction
from service.usecases.stored import Sessions

JOBS_AT_ONCE = 100
CHANGES_AT_ONCE = 5_000
"""Small enough that a transaction ends within the time that a statement may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Numbers of rows deleted, or to be deleted."""

    events: int = 0
    samples: int = 0
    artifacts: int = 0
    changes: int = 0


def prune(sessions: Sessions, *, older_than: timedelta) -> Pruned:
    """Delete older data in small transactions and return the counts.

    Nobody waits for a small transaction.
    """
    events = samples = artifacts = changes = 0
    while True:
        with transaction(sessions) as session:
            jobs = queries.list_jobs_with_detail(session, older_than=older_than, limit=JOBS_AT_ONCE)
            gone = queries.delete_detail(session, jobs)
        events, samples, artifacts = (
            events + gone.events,
            samples + gone.samples,
            artifacts + gone.artifacts,
        )
        if len(jobs) < JOBS_AT_ONCE:
            break
    while True:
        with transaction(sessions) as session:
            deleted = queries.delete_changes(session, older_than=older_than, limit=CHANGES_AT_ONCE)
        changes += deleted
        if deleted < CHANGES_AT_ONCE:
            return Pruned(events=events, samples=samples, artifacts=artifacts, changes=changes)


def count_prunable(sessions: Sessions, *, older_than: timedelta) -> Pruned:
    """Count the rows that ``prune`` would delete now."""
    with transaction(sessions) as session:
        counts = queries.count_detail(session, older_than=older_than)
        changes = queries.count_changes(session, older_than=older_than)
    return Pruned(
        events=counts.events, samples=counts.samples, artifacts=counts.artifacts, changes=changes
    )
