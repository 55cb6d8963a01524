"""Retention of growing data.

Progress, samples and artifacts of ended measurements, the log of changes and that of hooks are
deleted after a time.

What was measured, calibrations, models, clusters and keys are never deleted: answers rest on them.
"""

from collections.abc import Callable
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


def prune(
    sessions: Sessions, *, older_than: timedelta, is_over: Callable[[], bool] = lambda: False
) -> Pruned:
    """Delete older data in small transactions and return the counts.

    Nobody waits for a small transaction. Once ``is_over``, the rest is left for the next time.
    """
    deletions = _Deletions(sessions=sessions, is_over=is_over)
    events = samples = artifacts = 0
    while not is_over():
        with transaction(sessions) as session:
            jobs = queries.list_unpruned_jobs(session, older_than=older_than, limit=JOBS_AT_ONCE)
        events += deletions.run(partial(queries.delete_events, job_ids=jobs))
        samples += deletions.run(partial(queries.delete_samples, job_ids=jobs))
        artifacts += deletions.run(partial(queries.delete_artifacts, job_ids=jobs))
        if is_over():
            break
        with transaction(sessions) as session:
            queries.mark_pruned(session, jobs)
        if len(jobs) < JOBS_AT_ONCE:
            break
    return Pruned(
        events=events,
        samples=samples,
        artifacts=artifacts,
        changes=deletions.run(partial(queries.delete_changes, older_than=older_than)),
        decisions=deletions.run(partial(queries.delete_decisions, older_than=older_than)),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deletions:
    """Deletions in small transactions, until they are over."""

    sessions: Sessions
    is_over: Callable[[], bool]

    def run(self, delete_rows: _DeleteRows) -> int:
        """Delete old rows and return their number."""
        total = 0
        while not self.is_over():
            with transaction(self.sessions) as session:
                deleted = delete_rows(session, limit=ROWS_AT_ONCE)
            total += deleted
            if deleted < ROWS_AT_ONCE:
                break
        return total
