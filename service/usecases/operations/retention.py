"""How long what grows is kept: progress, samples and artifacts of measurements that are over, and the log of changes.

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
    """How many rows went, or would go."""

    events: int = 0
    samples: int = 0
    artifacts: int = 0
    changes: int = 0


def prune(sessions: Sessions, *, older_than: timedelta) -> Pruned:
    """Delete what is older, in many small transactions, so that nobody waits for it; return how much."""
    events = samples = artifacts = changes = 0
    while True:
        with transaction(sessions) as session:
            jobs = queries.jobs_with_detail(session, older_than=older_than, limit=JOBS_AT_ONCE)
            gone = queries.delete_detail(session, jobs)
        events, samples, artifacts = events + gone.events, samples + gone.samples, artifacts + gone.artifacts
        if len(jobs) < JOBS_AT_ONCE:
            break
    while True:
        with transaction(sessions) as session:
            deleted = queries.delete_changes(session, older_than=older_than, limit=CHANGES_AT_ONCE)
        changes += deleted
        if deleted < CHANGES_AT_ONCE:
            return Pruned(events=events, samples=samples, artifacts=artifacts, changes=changes)


def prunable(sessions: Sessions, *, older_than: timedelta) -> Pruned:
    """Return what ``prune`` would delete now."""
    with transaction(sessions) as session:
        found = queries.count_detail(session, older_than=older_than)
        changes = queries.count_changes(session, older_than=older_than)
    return Pruned(events=found.events, samples=found.samples, artifacts=found.artifacts, changes=changes)
