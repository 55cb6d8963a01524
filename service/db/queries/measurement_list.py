"""Lists of measurements: whole ones page by page, and the lines of a table without what no table shows."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, Row, select
from sqlalchemy.orm import Session

from service.db.pages import Page, PageRequest, after, after_value, page_of, page_of_valued
from service.db.queries.artifacts import artifacts_of
from service.db.queries.measurements import stored_measurement
from service.db.records.measurements import KeptAnswer, MeasurementFilter, MeasurementLine, MeasurementSort, StoredMeasurement
from service.db.tables.core import MeasureJobRow, MeasurementResultRow
from service.db.tables.learning import ResidualRow
from service.jobs.states import Status

LIST = "measurements"
Job, Result = MeasureJobRow, MeasurementResultRow
Item = TypeVar("Item")
# A statement over several columns has a type of its own for each; what is done to it here is the same.
Statement = Any
Rows = Sequence[Any]

_LINE = (
    Job.id,
    Job.state,
    Job.source,
    Job.device,
    Job.gpu,
    Job.model_name,
    Job.family,
    Job.task,
    Job.created_at,
    Job.finished_at,
    Job.request[("task", "workload")].label("workload"),
    Job.request["layout"].label("layout"),
    Job.error["type"].as_string().label("problem"),
    Result.environment,
    Result.peaks,
    Result.prediction,
    Result.step_time,
    Result.extrapolated,
    Result.calibration_id,
    Result.absolute_error,
)


def page_of_measurements(
    session: Session, request: PageRequest, wanted: MeasurementFilter, sort: MeasurementSort = MeasurementSort.NEWEST
) -> Page[StoredMeasurement]:
    """Return a page of measurements with their results."""
    rows = session.execute(_page(_joined(select(Job, Result), wanted, sort), request, sort)).all()
    kept = artifacts_of(session, [row[0].id for row in rows])
    return _cut(
        rows,
        request,
        sort,
        lambda row: stored_measurement(row[0], row[1], kept.get(row[0].id, ())),
        of=lambda row: (row[0], row[1]),
    )


def page_of_lines(
    session: Session, request: PageRequest, wanted: MeasurementFilter, sort: MeasurementSort = MeasurementSort.NEWEST
) -> Page[MeasurementLine]:
    """Return a page of the lines of a table."""
    rows = session.execute(_page(_joined(select(*_LINE), wanted, sort), request, sort)).all()
    residuals = _residuals(session, [row.id for row in rows])
    return _cut(rows, request, sort, lambda row: _line(row, residuals[row.id]), of=lambda row: (row, row))


def _joined(statement: Statement, wanted: MeasurementFilter, sort: MeasurementSort) -> Statement:
    bounded = wanted.error_at_least is not None or wanted.error_at_most is not None
    needs_error = bounded or sort.is_by_error
    statement = statement.join(Result, Result.job_id == Job.id, isouter=not needs_error)
    if needs_error:
        statement = statement.where(Result.absolute_error.is_not(None))
    return statement.where(*_conditions(wanted))


def _page(statement: Statement, request: PageRequest, sort: MeasurementSort) -> Statement:
    name = _list_name(sort)
    if sort.is_by_error:
        columns = (Result.absolute_error, Result.job_id)
        return after_value(statement, request, list_name=name, columns=columns, highest_first=sort.is_descending)
    return after(
        statement,
        request,
        list_name=name,
        created_at=Job.created_at,
        row_id=Job.id,
        oldest_first=not sort.is_descending,
    )


def _cut(
    rows: Rows,
    request: PageRequest,
    sort: MeasurementSort,
    value: Callable[[Any], Item],
    *,
    of: Callable[[Any], tuple[Any, Any]],
) -> Page[Item]:
    """Return the page; ``of`` gives where in a row the job's columns are, and where the result's."""
    name = _list_name(sort)
    if sort.is_by_error:
        return page_of_valued(
            rows, request, list_name=name, position=lambda row: (of(row)[1].absolute_error, of(row)[0].id), value=value
        )
    return page_of(rows, request, list_name=name, position=lambda row: (of(row)[0].created_at, of(row)[0].id), value=value)


def _list_name(sort: MeasurementSort) -> str:
    """Return what keeps a cursor to its order."""
    return LIST if sort is MeasurementSort.NEWEST else f"{LIST} by {sort.value}"


def _conditions(wanted: MeasurementFilter) -> list[ColumnElement[bool]]:
    equal = {
        Job.model_name: wanted.model,
        Job.family: wanted.family,
        Job.task: wanted.task,
        Job.gpu: wanted.gpu,
        Job.state: wanted.status,
        Job.device: wanted.device,
        Job.source: wanted.source,
    }
    conditions: list[ColumnElement[bool]] = [column == value for column, value in equal.items() if value is not None]
    if wanted.created_after is not None:
        conditions.append(Job.created_at >= wanted.created_after)
    if wanted.created_before is not None:
        conditions.append(Job.created_at < wanted.created_before)
    if wanted.error_at_least is not None:
        conditions.append(Result.absolute_error >= wanted.error_at_least)
    if wanted.error_at_most is not None:
        conditions.append(Result.absolute_error <= wanted.error_at_most)
    return conditions


def _residuals(session: Session, job_ids: Sequence[UUID]) -> defaultdict[UUID, dict[str, KeptAnswer]]:
    found: defaultdict[UUID, dict[str, KeptAnswer]] = defaultdict(dict)
    for one in session.scalars(select(ResidualRow).where(ResidualRow.job_id.in_(job_ids))):
        found[one.job_id][one.quantity] = KeptAnswer(
            kind=one.kind,
            predicted=one.predicted,
            interval=_interval(one.low, one.high),
            after=one.after,
            after_interval=_interval(one.after_low, one.after_high),
        )
    return found


def _interval(low: int | None, high: int | None) -> tuple[int, int] | None:
    return None if low is None or high is None else (low, high)


def _line(row: Row[Any], residuals: dict[str, KeptAnswer]) -> MeasurementLine:
    return MeasurementLine(
        id=row.id,
        status=Status(row.state),
        source=row.source,
        device=row.device,
        gpu=row.gpu,
        model=row.model_name,
        family=row.family,
        task=row.task,
        created_at=row.created_at,
        finished_at=row.finished_at,
        workload=row.workload or {},
        layout=row.layout or {},
        problem=row.problem,
        environment=row.environment or {},
        peaks=row.peaks or {},
        prediction=row.prediction or {},
        step_time_s=row.step_time or {},
        extrapolated=row.extrapolated,
        calibration_id=row.calibration_id,
        residuals=residuals,
    )
