"""Retention of growing data.

Progress, samples and artifacts of ended measurements, the log of changes and that of hooks are
deleted after a time.

What was measured, calibrations, models, clusters and keys are never deleted: answers rest on them.
"""

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol

from sqlalchemy.orm import Session

from service.db.queries import retention as queries
from service.db.session import transaction
from service.usecases.stored import Sessions

JOBS_AT_ONCE = 100
ROWS_AT_ONCE = 5_000
"""Small enough that a transaction ends within the time that a statement may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Numbers of rows deleted, or to be deleted."""

    events: int = 0
    samples: int = 0
    artifacts: int = 0
    changes: int = 0
    decisions: int = 0


def prune(sessions: Sessions, *, older_than: timedelta) -> Pruned:
    """Delete older data in small transactions and return the counts.

    Nobody waits for a small transaction.
    """
    events = samples = artifacts = 0
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
    return Pruned(
        events=events,
        samples=samples,
        artifacts=artifacts,
        changes=_delete_all(sessions, partial(queries.delete_changes, older_than=older_than)),
        decisions=_delete_all(sessions, partial(queries.delete_decisions, older_than=older_than)),
    )


def count_prunable(sessions: Sessions, *, older_than: timedelta) -> Pruned:
    """Count the rows that ``prune`` would delete now."""
    with transaction(sessions) as session:
        counts = queries.count_detail(session, older_than=older_than)
        changes = queries.count_changes(session, older_than=older_than)
        decisions = queries.count_decisions(session, older_than=older_than)
    return Pruned(
        events=counts.events,
        samples=counts.samples,
        artifacts=counts.artifacts,
        changes=changes,
        decisions=decisions,
    )


class _DeleteRows(Protocol):
    def __call__(self, session: Session, *, limit: int) -> int:
        """Delete up to ``limit`` rows and return their number."""


def _delete_all(sessions: Sessions, delete_rows: _DeleteRows) -> int:
    """Delete old rows in small transactions and return their number."""
    total = 0
    while True:
        with transaction(sessions) as session:
            deleted = delete_rows(session, limit=ROWS_AT_ONCE)
        total += deleted
        if deleted < ROWS_AT_ONCE:
            return total
