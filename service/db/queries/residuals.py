"""Statements about residuals: errors of answers against measurements, by class."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Float,
    Integer,
    Text,
    case,
    cast,
    delete,
    func,
    literal,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import array, insert
from sqlalchemy.orm import InstrumentedAttribute, Session

from service.db.records.stored import (
    AccuracyFilter,
    ClassAccuracy,
    CurveHistory,
    ErrorCount,
    ErrorSummary,
    IntervalMisses,
    NewResidual,
)
from service.db.tables.learning import ResidualRow
from service.jobs.contract import ProbeDevice

_COUNTED_SURPRISES = 50
"""Newest measurements of one kind, quantity and environment that tell of drift: an older error may
have been mended.
"""


def write_residuals(session: Session, residuals: Sequence[NewResidual]) -> None:
    """Store residuals, replacing earlier ones of the same measurements.

    The column ``surprised`` is not replaced.
    """
    if not residuals:
        return
    statement = insert(ResidualRow)
    preserved = {"job_id", "quantity", "surprised", "measured_at"}
    fresh = {
        column.name: statement.excluded[column.name]
        for column in ResidualRow.__table__.columns
        if column.name not in preserved
    }
    session.execute(
        statement.on_conflict_do_update(index_elements=["job_id", "quantity"], set_=fresh),
        [_to_values(residual) for residual in residuals],
    )


def forget_residuals(session: Session, job_id: UUID) -> None:
    """Delete the residuals of a measurement that no longer counts."""
    session.execute(delete(ResidualRow).where(ResidualRow.job_id == job_id))


def read_answers_after(
    session: Session, job_ids: Collection[UUID], quantity: str
) -> Mapping[UUID, int]:
    """Return the answers about measurements from all other ones."""
    query = select(ResidualRow.job_id, ResidualRow.after).where(
        ResidualRow.job_id.in_(job_ids), ResidualRow.quantity == quantity
    )
    return {row.job_id: row.after for row in session.execute(query)}


def mark_surprised(session: Session, job_id: UUID, quantity: str, *, surprised: bool) -> None:
    """Store whether a measurement lay outside its promised interval."""
    mine = (ResidualRow.job_id == job_id, ResidualRow.quantity == quantity)
    session.execute(update(ResidualRow).where(*mine).values(surprised=surprised))


def summarize_accuracy(
    session: Session, filters: AccuracyFilter, *, by_gpu: bool = False
) -> tuple[ClassAccuracy, ...]:
    """Return the errors of each class, largest class first.

    They are read in one pass over the residuals; ``by_gpu`` each GPU is a class of its own.
    """
    row = ResidualRow
    # Bytes that a processor or fake tensors told are of no GPU, whichever they were asked for.
    measured_gpu = case((row.device == ProbeDevice.CUDA.value, row.gpu), else_=None)
    gpu = (measured_gpu if by_gpu else cast(None, Text)).label("gpu")
    query = (
        select(
            row.kind,
            row.quantity,
            gpu,
            func.count().label("num"),
            *_make_summary(row.predicted, row.low, row.high),
            *_make_summary(row.after, row.after_low, row.after_high),
        )
        .where(*_make_conditions(filters))
        .group_by(row.kind, row.quantity, gpu)
        .order_by(func.count().desc(), row.kind, row.quantity, gpu)
    )
    return tuple(
        ClassAccuracy(
            kind=kind,
            quantity=quantity,
            gpu=gpu_name,
            count=count,
            before=_to_error_summary(figures[:5]),
            after=_to_error_summary(figures[5:]),
        )
        for kind, quantity, gpu_name, count, *figures in session.execute(query)
    )


def count_errors(session: Session, bounds: Sequence[float]) -> tuple[ErrorCount, ...]:
    """Count answers by class and bucket of absolute error.

    Each of ``bounds`` is the upper end of a bucket.
    """
    row = ResidualRow
    counted = []
    for when, answer in (("before", row.predicted), ("after", row.after)):
        place = func.width_bucket(
            func.abs(_make_error(answer)), array([literal(bound, Float) for bound in bounds])
        )
        query = select(
            row.kind, row.quantity, place, func.count(), func.sum(func.abs(_make_error(answer)))
        )
        rows = session.execute(query.group_by(row.kind, row.quantity, place))
        counted += [
            ErrorCount(
                kind=kind,
                quantity=quantity,
                when=when,
                place=index,
                count=count,
                total=float(total),
            )
            for kind, quantity, index, count, total in rows
        ]
    return tuple(counted)


def count_interval_misses(
    session: Session,
    *,
    kind: str | None = None,
    quantity: str | None = None,
    environment: str | None = None,
) -> tuple[IntervalMisses, ...]:
    """Count the newest measurements outside their promised intervals.

    They are counted by kind, quantity and environment.
    """
    row = ResidualRow
    newest = func.row_number().over(
        partition_by=(row.kind, row.quantity, row.environment),
        order_by=(row.measured_at.desc(), row.job_id),
    )
    ranked = select(row.kind, row.quantity, row.environment, row.surprised, newest.label("place"))
    filters = {row.kind: kind, row.quantity: quantity, row.environment: environment}
    only = [column == value for column, value in filters.items() if value is not None]
    recent = ranked.where(row.surprised.is_not(None), *only).subquery()
    query = (
        select(
            recent.c.kind,
            recent.c.quantity,
            recent.c.environment,
            func.count().label("measured"),
            func.sum(cast(recent.c.surprised, Integer)).label("outside"),
        )
        .where(recent.c.place <= _COUNTED_SURPRISES)
        .group_by(recent.c.kind, recent.c.quantity, recent.c.environment)
        .order_by(recent.c.kind, recent.c.quantity, recent.c.environment)
    )
    return tuple(
        IntervalMisses(
            kind=counts.kind,
            quantity=counts.quantity,
            environment=counts.environment,
            measured=counts.measured,
            outside=counts.outside,
        )
        for counts in session.execute(query)
    )


def count_promised_intervals(session: Session) -> tuple[IntervalMisses, ...]:
    """Count all promised intervals and misses by kind and quantity."""
    row = ResidualRow
    query = (
        select(
            row.kind,
            row.quantity,
            func.count(row.surprised),
            func.count().filter(row.surprised.is_(true())),
        )
        .group_by(row.kind, row.quantity)
        .order_by(row.kind, row.quantity)
    )
    return tuple(
        IntervalMisses(
            kind=kind, quantity=quantity, environment="", measured=measured, outside=outside
        )
        for kind, quantity, measured, outside in session.execute(query)
    )


def list_histories(session: Session, curves: Collection[str]) -> tuple[CurveHistory, ...]:
    """Return interval counts and biases of curves, by environment."""
    row = ResidualRow
    query = (
        select(
            row.curve,
            row.quantity,
            row.environment,
            func.count(row.surprised),
            func.count().filter(row.surprised.is_(true())),
            func.avg(cast(row.measured, Float) / row.predicted - 1),
        )
        .where(row.curve.in_(curves))
        .group_by(row.curve, row.quantity, row.environment)
    )
    return tuple(
        CurveHistory(
            curve=curve,
            quantity=quantity,
            environment=environment,
            measured=measured,
            outside=outside,
            bias=float(bias),
        )
        for curve, quantity, environment, measured, outside, bias in session.execute(query)
    )


def _make_conditions(filters: AccuracyFilter) -> list[ColumnElement[bool]]:
    row = ResidualRow
    equal = {
        row.family: filters.family,
        row.gpu: filters.gpu,
        row.device: filters.device,
        row.quantity: filters.quantity,
    }
    conditions: list[ColumnElement[bool]] = [
        column == value for column, value in equal.items() if value is not None
    ]
    if filters.since is not None:
        conditions.append(row.measured_at >= filters.since)
    return conditions


def _make_error(answer: InstrumentedAttribute[int]) -> ColumnElement[Any]:
    return cast(answer, Float) / ResidualRow.measured - 1


def _make_summary(
    answer: InstrumentedAttribute[int],
    low: InstrumentedAttribute[int | None],
    high: InstrumentedAttribute[int | None],
) -> tuple[ColumnElement[Any], ...]:
    """Return columns that summarise the errors of a class.

    They are median and 95th percentile of the absolute error, bias, coverage, and the mean width of
    the interval.
    """
    size = func.abs(_make_error(answer))
    covered = case((low.is_(None), None), (ResidualRow.measured.between(low, high), 1.0), else_=0.0)
    return (
        func.percentile_disc(0.5).within_group(size),
        func.percentile_disc(0.95).within_group(size),
        func.avg(_make_error(answer)),
        func.avg(covered),
        func.avg(cast(high - low, Float) / ResidualRow.measured),
    )


def _to_error_summary(figures: Sequence[float | None]) -> ErrorSummary:
    # A group has at least one row; its answers need no interval.
    median, p95, bias = (float(value or 0.0) for value in figures[:3])
    coverage, width = (None if value is None else float(value) for value in figures[3:])
    return ErrorSummary(median=median, p95=p95, bias=bias, coverage=coverage, width=width)


def _to_values(residual: NewResidual) -> dict[str, object]:
    low, high = residual.interval or (None, None)
    after_low, after_high = residual.after_interval or (None, None)
    named = {
        item.name: getattr(residual, item.name)
        for item in fields(residual)
        if item.name not in {"interval", "after_interval"}
    }
    return named | {"low": low, "high": high, "after_low": after_low, "after_high": after_high}
