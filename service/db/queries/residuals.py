"""Every statement about residuals: how far answers were from measurements, and what that says of a class of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Float, Integer, case, cast, delete, func, literal, select, true, update
from sqlalchemy.dialects.postgresql import array, insert
from sqlalchemy.orm import InstrumentedAttribute, Session

from service.db.records.stored import (
    AccuracyFilter,
    ClassAccuracy,
    CurveHistory,
    ErrorCount,
    ErrorSummary,
    NewResidual,
    Surprises,
)
from service.db.tables.learning import ResidualRow

_COUNTED_SURPRISES = 50
"""Of one kind, quantity and environment the newest measurements tell of drift: what was long ago may have been mended."""


def write_residuals(session: Session, residuals: Sequence[NewResidual]) -> None:
    """Store how far answers were off; what was stored of a measurement before is replaced, but for what surprised."""
    if not residuals:
        return
    statement = insert(ResidualRow)
    kept = {"job_id", "quantity", "surprised", "measured_at"}
    fresh = {
        column.name: statement.excluded[column.name] for column in ResidualRow.__table__.columns if column.name not in kept
    }
    session.execute(
        statement.on_conflict_do_update(index_elements=["job_id", "quantity"], set_=fresh), [_values(one) for one in residuals]
    )


def forget_residuals(session: Session, job_id: UUID) -> None:
    """Delete how far answers were from a measurement that does not count any more."""
    session.execute(delete(ResidualRow).where(ResidualRow.job_id == job_id))


def answers_after(session: Session, job_ids: Collection[UUID], quantity: str) -> Mapping[UUID, int]:
    """Return what is answered about each of some measurements with all that others taught."""
    query = select(ResidualRow.job_id, ResidualRow.after).where(
        ResidualRow.job_id.in_(job_ids), ResidualRow.quantity == quantity
    )
    return {row.job_id: row.after for row in session.execute(query)}


def mark_surprise(session: Session, job_id: UUID, quantity: str, *, surprised: bool) -> None:
    """Write down whether a measurement lay outside of what had been promised."""
    mine = (ResidualRow.job_id == job_id, ResidualRow.quantity == quantity)
    session.execute(update(ResidualRow).where(*mine).values(surprised=surprised))


def accuracy(session: Session, wanted: AccuracyFilter) -> tuple[ClassAccuracy, ...]:
    """Return the errors of each class in one pass over the residuals, the largest class first."""
    row = ResidualRow
    query = (
        select(
            row.kind,
            row.quantity,
            func.count().label("num"),
            *_summary(row.predicted, row.low, row.high),
            *_summary(row.after, row.after_low, row.after_high),
        )
        .where(*_conditions(wanted))
        .group_by(row.kind, row.quantity)
        .order_by(func.count().desc(), row.kind, row.quantity)
    )
    return tuple(
        ClassAccuracy(kind=kind, quantity=quantity, count=count, before=_read(found[:5]), after=_read(found[5:]))
        for kind, quantity, count, *found in session.execute(query)
    )


def histogram(session: Session, bounds: Sequence[float]) -> tuple[ErrorCount, ...]:
    """Return how many answers were off by at most each of ``bounds`` and by more than the one before, by class."""
    row = ResidualRow
    counted = []
    for when, answer in (("before", row.predicted), ("after", row.after)):
        place = func.width_bucket(func.abs(_error(answer)), array([literal(bound, Float) for bound in bounds]))
        query = select(row.kind, row.quantity, place, func.count(), func.sum(func.abs(_error(answer))))
        found = session.execute(query.group_by(row.kind, row.quantity, place))
        counted += [
            ErrorCount(kind=kind, quantity=quantity, when=when, place=index, count=count, total=float(total))
            for kind, quantity, index, count, total in found
        ]
    return tuple(counted)


def surprises(
    session: Session, *, kind: str | None = None, quantity: str | None = None, environment: str | None = None
) -> tuple[Surprises, ...]:
    """Return how often the newest measurements of each kind, quantity and environment lay outside what was promised."""
    row = ResidualRow
    newest = func.row_number().over(
        partition_by=(row.kind, row.quantity, row.environment), order_by=(row.measured_at.desc(), row.job_id)
    )
    told = select(row.kind, row.quantity, row.environment, row.surprised, newest.label("place"))
    asked = {row.kind: kind, row.quantity: quantity, row.environment: environment}
    only = [column == value for column, value in asked.items() if value is not None]
    each = told.where(row.surprised.is_not(None), *only).subquery()
    query = (
        select(
            each.c.kind,
            each.c.quantity,
            each.c.environment,
            func.count().label("measured"),
            func.sum(cast(each.c.surprised, Integer)).label("outside"),
        )
        .where(each.c.place <= _COUNTED_SURPRISES)
        .group_by(each.c.kind, each.c.quantity, each.c.environment)
        .order_by(each.c.kind, each.c.quantity, each.c.environment)
    )
    return tuple(
        Surprises(kind=one.kind, quantity=one.quantity, environment=one.environment, measured=one.measured, outside=one.outside)
        for one in session.execute(query)
    )


def promises(session: Session) -> tuple[Surprises, ...]:
    """Return how many measurements were ever promised an interval, and how many lay outside, by kind and quantity."""
    row = ResidualRow
    query = (
        select(row.kind, row.quantity, func.count(row.surprised), func.count().filter(row.surprised.is_(true())))
        .group_by(row.kind, row.quantity)
        .order_by(row.kind, row.quantity)
    )
    return tuple(
        Surprises(kind=kind, quantity=quantity, environment="", measured=measured, outside=outside)
        for kind, quantity, measured, outside in session.execute(query)
    )


def histories(session: Session, curves: Collection[str]) -> tuple[CurveHistory, ...]:
    """Return what was measured of each of some questions, environment by environment."""
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
            curve=curve, quantity=quantity, environment=environment, measured=measured, outside=outside, bias=float(bias)
        )
        for curve, quantity, environment, measured, outside, bias in session.execute(query)
    )


def _conditions(wanted: AccuracyFilter) -> list[ColumnElement[bool]]:
    row = ResidualRow
    equal = {row.family: wanted.family, row.gpu: wanted.gpu, row.device: wanted.device, row.quantity: wanted.quantity}
    conditions: list[ColumnElement[bool]] = [column == value for column, value in equal.items() if value is not None]
    if wanted.since is not None:
        conditions.append(row.measured_at >= wanted.since)
    return conditions


def _error(answer: InstrumentedAttribute[int]) -> ColumnElement[Any]:
    return cast(answer, Float) / ResidualRow.measured - 1


def _summary(
    answer: InstrumentedAttribute[int], low: InstrumentedAttribute[int | None], high: InstrumentedAttribute[int | None]
) -> tuple[ColumnElement[Any], ...]:
    """Return median and 95th percentile of the absolute error, bias, coverage, and the mean width of the interval."""
    size = func.abs(_error(answer))
    inside = case((low.is_(None), None), (ResidualRow.measured.between(low, high), 1.0), else_=0.0)
    return (
        func.percentile_disc(0.5).within_group(size),
        func.percentile_disc(0.95).within_group(size),
        func.avg(_error(answer)),
        func.avg(inside),
        func.avg(cast(high - low, Float) / ResidualRow.measured),
    )


def _read(found: Sequence[float | None]) -> ErrorSummary:
    median, p95, bias, coverage, width = (None if value is None else float(value) for value in found)
    assert median is not None  # noqa: S101 - a group has at least one row
    assert p95 is not None  # noqa: S101 - a group has at least one row
    assert bias is not None  # noqa: S101 - a group has at least one row
    return ErrorSummary(median=median, p95=p95, bias=bias, coverage=coverage, width=width)


def _values(one: NewResidual) -> dict[str, object]:
    low, high = one.interval or (None, None)
    after_low, after_high = one.after_interval or (None, None)
    named = {item.name: getattr(one, item.name) for item in fields(one) if item.name not in {"interval", "after_interval"}}
    return named | {"low": low, "high": high, "after_low": after_low, "after_high": after_high}
