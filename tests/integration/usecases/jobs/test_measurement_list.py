"""Lists of measurements against a real database: filters, orders, and pages that new rows do not
shift.
"""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import InvalidCursorError
from service.db.queries.imports import insert_import
from service.db.records.measurements import NewImport
from service.estimator.values.workload import ServeWorkload
from service.jobs.contract import MeasureRequest, ModelSource, ProbeDevice, make_task
from service.usecases.jobs import measurements
from service.usecases.stored import (
    MeasurementFilter,
    MeasurementLine,
    MeasurementSort,
    Page,
    PageRequest,
)
from tests.job_builders import a_request

Sessions = sessionmaker[Session]
ERRORS = (0.5, -0.02, None, 0.1, -0.3, 0.1)
NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(name="ids")
def fill(sessions: Sessions) -> list[UUID]:
    """Store measurements, one a minute, whose errors are ``ERRORS``; return their ids, oldest
    first.
    """
    return [add(sessions, minute=minute, error=error) for minute, error in enumerate(ERRORS)]


def request(minute: int) -> MeasureRequest:
    """Return a question: every second one serves, every third is of a model of its own."""
    asked = a_request(
        name="odd" if minute % 3 == 0 else "even", gpu="H200", device=ProbeDevice.CUDA
    )
    source = ModelSource(
        architecture={"family": "llama" if minute < 3 else "gpt2"},
        name=asked.model.name,
        revision=1,
    )
    task = (
        make_task(ServeWorkload(num_sequences=3, prompt_tokens=5, output_tokens=2))
        if minute % 2
        else asked.task
    )
    return MeasureRequest(
        model=source, task=task, layout=asked.layout, device=asked.device, gpu=asked.gpu
    )


def add(sessions: Sessions, *, minute: int, error: float | None) -> UUID:
    """Store one measurement."""
    new = NewImport(
        id=uuid4(),
        import_hash=uuid4().hex,
        request=request(minute),
        key="k",
        environment={"torch": "2.13.0"},
        peaks={"allocated_bytes": 1000, "out_of_memory": False},
        prediction=None
        if error is None
        else {"allocated_bytes": round(1000 * (1 + error)), "error": error},
        readings=[],
        notes=(),
    )
    with sessions.begin() as session:
        insert_import(session, new)
        moment = NOW + timedelta(minutes=minute)
        session.execute(
            text("UPDATE measurements SET created_at = :at WHERE id = :id"),
            {"at": moment, "id": new.id},
        )
    return new.id


def lines(sessions: Sessions, **wanted: object) -> list[UUID]:
    """Return the ids of a filtered list, newest first."""
    found = MeasurementFilter(**wanted)  # type: ignore[arg-type]  # fields of the filter, by name
    return [line.id for line in measurements.list_lines(sessions, PageRequest(), found).items]


def walk(
    sessions: Sessions,
    sort: MeasurementSort,
    wanted: MeasurementFilter | None = None,
    *,
    limit: int = 2,
) -> list[UUID]:
    """Return the ids of a list, page after page; whole measurements and lines come in the same
    order.
    """
    ids: list[UUID] = []
    cursor: str | None = None
    while True:
        page: Page[MeasurementLine] = measurements.list_lines(
            sessions, PageRequest(limit=limit, cursor=cursor), wanted or MeasurementFilter(), sort
        )
        whole = measurements.list_page(
            sessions, PageRequest(limit=limit, cursor=cursor), wanted or MeasurementFilter(), sort
        )
        assert [item.id for item in whole.items] == [line.id for line in page.items]
        assert whole.next_cursor == page.next_cursor
        ids += [line.id for line in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return ids


def test_lists_are_narrowed_by_every_word(sessions: Sessions, ids: list[UUID]) -> None:
    """Each filter lets through what has its word; several all hold."""
    newest = list(reversed(ids))

    assert lines(sessions) == newest
    assert lines(sessions, model="odd") == [ids[3], ids[0]]
    assert lines(sessions, family="gpt2") == [ids[5], ids[4], ids[3]]
    assert lines(sessions, task="serve") == [ids[5], ids[3], ids[1]]
    assert lines(sessions, task="serve", family="llama") == [ids[1]]
    assert lines(sessions, source="import", gpu="H200", device="cuda") == newest
    assert lines(sessions, source="probe") == []
    assert lines(sessions, created_after=NOW + timedelta(minutes=4)) == [ids[5], ids[4]]


def test_errors_are_bounded_without_their_sign(sessions: Sessions, ids: list[UUID]) -> None:
    """Too high and too low are both off; what was never predicted has no error."""
    assert lines(sessions, error_at_least=0.2) == [ids[4], ids[0]]
    assert lines(sessions, error_at_most=0.05) == [ids[1]]
    assert lines(sessions, error_at_least=0.1, error_at_most=0.3) == [ids[5], ids[4], ids[3]]


def test_lists_are_sorted(sessions: Sessions, ids: list[UUID]) -> None:
    """By time and by error, either way, page after page; of equal errors each comes once."""
    by_error = walk(sessions, MeasurementSort.BEST)

    assert walk(sessions, MeasurementSort.OLDEST) == ids
    assert walk(sessions, MeasurementSort.NEWEST) == list(reversed(ids))
    assert by_error == list(reversed(walk(sessions, MeasurementSort.WORST)))
    assert [by_error[0], *by_error[-2:]] == [ids[1], ids[4], ids[0]]
    assert {*by_error[1:3]} == {ids[3], ids[5]}
    assert ids[2] not in by_error


@pytest.mark.parametrize("sort", MeasurementSort)
def test_new_rows_shift_no_page(sessions: Sessions, ids: list[UUID], sort: MeasurementSort) -> None:
    """What was there when the first page was read comes exactly once, whatever is added
    meanwhile.
    """
    before = walk(sessions, sort)
    first = measurements.list_lines(sessions, PageRequest(limit=2), MeasurementFilter(), sort)
    new = {
        add(sessions, minute=minute, error=error)
        for minute, error in ((-5, 0.9), (99, 0.0), (2, 0.1))
    }
    seen = [line.id for line in first.items]
    cursor = first.next_cursor
    while cursor is not None:
        page = measurements.list_lines(
            sessions, PageRequest(limit=2, cursor=cursor), MeasurementFilter(), sort
        )
        seen += [line.id for line in page.items]
        cursor = page.next_cursor

    assert [found for found in seen if found not in new] == before
    assert len(seen) == len(set(seen))
    assert set(before) <= set(ids)


def test_a_cursor_belongs_to_its_order(sessions: Sessions, ids: list[UUID]) -> None:
    """After a row means nothing in another order."""
    assert ids
    cursors = {
        sort: measurements.list_lines(
            sessions, PageRequest(limit=1), MeasurementFilter(), sort
        ).next_cursor
        for sort in MeasurementSort
    }

    for own, cursor in cursors.items():
        for other in set(MeasurementSort) - {own}:
            with pytest.raises(InvalidCursorError):
                measurements.list_lines(
                    sessions, PageRequest(limit=1, cursor=cursor), MeasurementFilter(), other
                )


def test_a_line_has_what_a_table_shows(sessions: Sessions, ids: list[UUID]) -> None:
    """The question's words and the result's numbers, without the model's whole config."""
    line = measurements.list_lines(
        sessions, PageRequest(), MeasurementFilter(task="serve", family="llama")
    ).items[0]

    assert (line.id, line.source, line.family, line.task, line.model) == (
        ids[1],
        "import",
        "llama",
        "serve",
        "even",
    )
    assert (line.workload["num_sequences"], line.layout["data_parallel"]) == (3, 1)
    assert (line.peaks["allocated_bytes"], line.environment["torch"], line.prediction["error"]) == (
        1000,
        "2.13.0",
        -0.02,
    )
    assert (line.problem, line.residuals) == (None, {})
