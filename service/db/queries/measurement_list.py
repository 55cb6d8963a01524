"""Lists of measurements: full ones, and table lines.

A table line leaves out what no table shows.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, Row, select
from sqlalchemy.orm import Session

from service.db.pages import (
    Page,
    PageRequest,
    make_page,
    make_page_by_value,
    paginate,
    paginate_by_value,
)
from service.db.queries.artifacts import list_artifacts
from service.db.queries.measurements import to_stored_measurement
from service.db.queries.recordings import SOURCE as RECORDING
from service.db.records.measurements import (
    MeasurementFilter,
    MeasurementLine,
    MeasurementSort,
    StoredMeasurement,
    StoredResidual,
)
from service.db.tables.core import MeasureJobRow, MeasurementResultRow
from service.db.tables.learning import ResidualRow
from service.jobs.states import Status

LIST = "measurements"
Job, Result = MeasureJobRow, MeasurementResultRow
Item = TypeVar("Item")
# A statement over several columns has a type of its own for each; what is done to it here is the
# same.
Statement = Any
Rows = Sequence[Any]

_LINE_COLUMNS = (
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


def list_measurements(
    session: Session,
    request: PageRequest,
    filters: MeasurementFilter,
    sort: MeasurementSort = MeasurementSort.NEWEST,
) -> Page[StoredMeasurement]:
    """Return a page of measurements with their results."""
    rows = session.execute(
        _paginate(_join_results(select(Job, Result), filters, sort), request, sort)
    ).all()
    artifacts = list_artifacts(session, [row[0].id for row in rows])
    return _make_page(
        rows,
        request,
        sort,
        lambda row: to_stored_measurement(row[0], row[1], artifacts.get(row[0].id, ())),
        split_row=lambda row: (row[0], row[1]),
    )


def list_table_lines(
    session: Session,
    request: PageRequest,
    filters: MeasurementFilter,
    sort: MeasurementSort = MeasurementSort.NEWEST,
) -> Page[MeasurementLine]:
    """Return a page of table lines."""
    rows = session.execute(
        _paginate(_join_results(select(*_LINE_COLUMNS), filters, sort), request, sort)
    ).all()
    residuals = _load_residuals(session, [row.id for row in rows])
    return _make_page(
        rows,
        request,
        sort,
        lambda row: _to_line(row, residuals[row.id]),
        split_row=lambda row: (row, row),
    )


def _join_results(
    statement: Statement, filters: MeasurementFilter, sort: MeasurementSort
) -> Statement:
    bounded = filters.error_at_least is not None or filters.error_at_most is not None
    needs_error = bounded or sort.is_by_error
    statement = statement.join(Result, Result.job_id == Job.id, isouter=not needs_error)
    if needs_error:
        statement = statement.where(Result.absolute_error.is_not(None))
    return statement.where(*_make_conditions(filters))


def _paginate(statement: Statement, request: PageRequest, sort: MeasurementSort) -> Statement:
    name = _get_list_name(sort)
    if sort.is_by_error:
        columns = (Result.absolute_error, Result.job_id)
        return paginate_by_value(
            statement, request, list_name=name, columns=columns, highest_first=sort.is_descending
        )
    return paginate(
        statement,
        request,
        list_name=name,
        created_at=Job.created_at,
        row_id=Job.id,
        oldest_first=not sort.is_descending,
    )


def _make_page(
    rows: Rows,
    request: PageRequest,
    sort: MeasurementSort,
    value: Callable[[Any], Item],
    *,
    split_row: Callable[[Any], tuple[Any, Any]],
) -> Page[Item]:
    """Return the page of selected rows.

    ``split_row`` gives where in a row the job's columns are, and where the result's.
    """
    name = _get_list_name(sort)
    if sort.is_by_error:
        return make_page_by_value(
            rows,
            request,
            list_name=name,
            position=lambda row: (split_row(row)[1].absolute_error, split_row(row)[0].id),
            value=value,
        )
    return make_page(
        rows,
        request,
        list_name=name,
        position=lambda row: (split_row(row)[0].created_at, split_row(row)[0].id),
        value=value,
    )


def _get_list_name(sort: MeasurementSort) -> str:
    """Return the list name that keeps a cursor to its order."""
    return LIST if sort is MeasurementSort.NEWEST else f"{LIST} by {sort.value}"


def _make_conditions(filters: MeasurementFilter) -> list[ColumnElement[bool]]:
    equal = {
        Job.model_name: filters.model,
        Job.family: filters.family,
        Job.task: filters.task,
        Job.gpu: filters.gpu,
        Job.state: filters.status,
        Job.device: filters.device,
        Job.source: filters.source,
    }
    conditions: list[ColumnElement[bool]] = [
        column == value for column, value in equal.items() if value is not None
    ]
    if filters.source is None:
        conditions.append(Job.source != RECORDING)
    if filters.created_after is not None:
        conditions.append(Job.created_at >= filters.created_after)
    if filters.created_before is not None:
        conditions.append(Job.created_at < filters.created_before)
    if filters.error_at_least is not None:
        conditions.append(Result.absolute_error >= filters.error_at_least)
    if filters.error_at_most is not None:
        conditions.append(Result.absolute_error <= filters.error_at_most)
    return conditions


def _load_residuals(
    session: Session, job_ids: Sequence[UUID]
) -> defaultdict[UUID, dict[str, StoredResidual]]:
    by_job: defaultdict[UUID, dict[str, StoredResidual]] = defaultdict(dict)
    for row in session.scalars(select(ResidualRow).where(ResidualRow.job_id.in_(job_ids))):
        by_job[row.job_id][row.quantity] = StoredResidual(
            kind=row.kind,
            predicted=row.predicted,
            interval=_make_interval(row.low, row.high),
            after=row.after,
            after_interval=_make_interval(row.after_low, row.after_high),
        )
    return by_job


def _make_interval(low: int | None, high: int | None) -> tuple[int, int] | None:
    return None if low is None or high is None else (low, high)


def _to_line(row: Row[Any], residuals: dict[str, StoredResidual]) -> MeasurementLine:
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
