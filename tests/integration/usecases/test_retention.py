"""What is old goes and what answers rest on stays."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from service.db.queries.retention import build_unpruned_query
from service.db.records.keys import AuditEvent
from service.db.tables.access import AuditEventRow
from service.db.tables.core import (
    CalibrationRow,
    MeasureJobRow,
    MeasurementEventRow,
    MeasurementSampleRow,
)
from service.usecases.access import keys
from service.usecases.jobs import measurements
from service.usecases.operations import retention
from service.usecases.operations.retention import Pruned, count_prunable, prune
from tests.integration.usecases.learning.builders import a_request, a_result, measure
from tests.job_builders import an_artifact

AGE = timedelta(days=90)


def ended_ago(sessions: sessionmaker[Session], age: timedelta, *, sequence_length: int) -> UUID:
    """Return a measurement with progress and samples that ended so long ago."""
    request = a_request(sequence_length=sequence_length)
    job_id = measure(sessions, request, a_result(request), artifacts=[an_artifact()]).id
    with sessions.begin() as session:
        for seq in (101, 102):
            session.add(
                MeasurementEventRow(job_id=job_id, seq=seq, kind="progress", data={"fraction": 0.5})
            )
            session.add(
                MeasurementSampleRow(
                    job_id=job_id, attempt=1, seq=seq, t_s=1.0, kind="process_rss", bytes=1
                ),
            )
        session.execute(
            update(MeasureJobRow)
            .where(MeasureJobRow.id == job_id)
            .values(finished_at=func.now() - age, last_event=102),
        )
    return job_id


def changed_ago(sessions: sessionmaker[Session], age: timedelta) -> None:
    """Write a change down as if it had been made so long ago."""
    event = AuditEvent(
        principal="ci", key_id=None, operation="deleteModel", method="DELETE", path="/v1/models/a", status=204, request_id="r",  # noqa: E501
        peer=None,
    )  # fmt: skip
    keys.record_change(sessions, event)
    with sessions.begin() as session:
        newest = (
            select(AuditEventRow.id)
            .order_by(AuditEventRow.created_at.desc())
            .limit(1)
            .scalar_subquery()
        )
        session.execute(
            update(AuditEventRow)
            .where(AuditEventRow.id == newest)
            .values(created_at=func.now() - age),
        )


def test_what_is_old_is_counted_then_deleted(sessions: sessionmaker[Session]) -> None:
    """Progress, samples and changes; a second time there is nothing left."""
    old = ended_ago(sessions, timedelta(days=91), sequence_length=64)
    new = ended_ago(sessions, timedelta(days=89), sequence_length=128)
    for days in (91, 89):
        changed_ago(sessions, timedelta(days=days))
    counted = count_prunable(sessions, older_than=AGE)
    pruned = prune(sessions, older_than=AGE)

    assert counted == pruned == Pruned(events=2, samples=2, artifacts=1, changes=1)
    assert prune(sessions, older_than=AGE) == Pruned()
    with sessions() as session:
        left = session.execute(
            select(MeasurementSampleRow.job_id, func.count()).group_by(MeasurementSampleRow.job_id)
        ).all()
        assert [tuple(row) for row in left] == [(new, 2)]
        assert session.scalars(select(func.count()).select_from(AuditEventRow)).one() == 1
    assert old != new


def test_what_was_measured_and_learnt_stays(sessions: sessionmaker[Session]) -> None:
    """The story of its statuses, the result and the calibration are as they were."""
    job_id = ended_ago(sessions, timedelta(days=91), sequence_length=64)
    before = measurements.read(sessions, job_id)
    prune(sessions, older_than=AGE)
    story = measurements.list_events_after(sessions, job_id, seq=0)

    assert before.artifacts
    assert measurements.read(sessions, job_id) == replace(before, artifacts=())
    assert [event.kind for event in story.events] == ["status"] * len(story.events)
    assert story.is_last
    with sessions() as session:
        assert session.scalars(select(func.count()).select_from(CalibrationRow)).one() >= 1


def test_a_measurement_that_runs_keeps_everything(sessions: sessionmaker[Session]) -> None:
    """However old it is: it has not ended."""
    job_id = ended_ago(sessions, timedelta(days=91), sequence_length=64)
    with sessions.begin() as session:
        session.execute(
            update(MeasureJobRow)
            .where(MeasureJobRow.id == job_id)
            .values(state="running", finished_at=None, lease_until=func.now() + timedelta(hours=1)),
        )

    assert prune(sessions, older_than=AGE) == Pruned()


def test_many_are_deleted_in_small_steps(
    sessions: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one transaction takes goes all the same."""
    for _ in range(3):
        changed_ago(sessions, timedelta(days=91))
    for length in (64, 128):
        ended_ago(sessions, timedelta(days=91), sequence_length=length)
    monkeypatch.setattr(retention, "JOBS_AT_ONCE", 1)
    monkeypatch.setattr(retention, "ROWS_AT_ONCE", 1)

    pruned = prune(sessions, older_than=AGE)

    assert pruned == Pruned(events=4, samples=4, artifacts=2, changes=3)


def test_what_time_is_left_for_goes_the_next_time(
    sessions: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop has leases to look after; a measurement that is half done is not forgotten."""
    ended_ago(sessions, timedelta(days=91), sequence_length=64)
    monkeypatch.setattr(retention, "ROWS_AT_ONCE", 1)
    steps = iter([False] * 4)

    first = prune(sessions, older_than=AGE, is_over=lambda: next(steps, True))
    second = prune(sessions, older_than=AGE)

    assert (first.events, first.samples) == (2, 0)
    assert (second.events, second.samples, second.artifacts) == (0, 2, 1)


def test_what_was_pruned_is_not_looked_at_again(sessions: sessionmaker[Session]) -> None:
    """An index of what is left leads to the oldest, however many went before."""
    query = build_unpruned_query(AGE, limit=100)
    with sessions() as session:
        # A table of a few rows is read as it is, whatever indexes it has.
        session.execute(text("SET LOCAL enable_seqscan = off"))
        session.execute(text("SET LOCAL enable_bitmapscan = off"))
        compiled = query.compile(session.get_bind(), compile_kwargs={"literal_binds": True})
        plan = "\n".join(session.scalars(text(f"EXPLAIN {compiled}")))

    assert "Index Scan using ix_measurements_unpruned" in plan
    assert "Sort" not in plan
