"""What calibrations say about one question: corrections for the estimator."""

from collections.abc import Mapping
from dataclasses import replace
from math import exp

from service.calibration.derive import Bound, Calibration, Exact
from service.calibration.evidence import EXACT_SHARE, RESERVED_SPREAD, MeasuredPoint, Quantity
from service.calibration.pool import Level, Pool
from service.estimator.architecture import Architecture
from service.estimator.corrections import NOTHING, Corrections, InstantCorrection
from service.estimator.layout import Layout
from service.estimator.workload import TrainWorkload, Workload

MEASURED, CALIBRATED = "measured", "calibrated"
ONLY_PART = "all"
"""The one part of a quantity that has no instants."""


def point_of(architecture: Architecture, workload: Workload, layout: Layout) -> MeasuredPoint:
    """Return where on its curve a question lies."""
    if isinstance(workload, TrainWorkload):
        return MeasuredPoint(
            num_layers=architecture.num_hidden_layers,
            micro_batch_size=workload.micro_batch_size,
            sequence_length=workload.sequence_length,
            num_gpus=layout.num_gpus,
        )
    return MeasuredPoint(
        num_layers=architecture.num_hidden_layers,
        micro_batch_size=workload.num_sequences,
        sequence_length=workload.prompt_tokens,
        output_tokens=workload.output_tokens,
        num_gpus=layout.num_gpus,
    )


def corrections_at(
    calibration: Calibration, point: MeasuredPoint, *, calibration_id: str, half_width: float | None = None
) -> Corrections:
    """Return the corrections for one point: its own residuals where it was measured itself, else the curve's.

    ``half_width`` is the conformal one of measurements like these; without it the key's own doubt counts.
    """
    made = Corrections(
        calibration=calibration_id, num_measurements=len(calibration.evidence), level=Level.KEY.value, basis=CALIBRATED
    )
    exact = _exact_at(calibration, point)
    if exact is not None:
        made = replace(made, basis=MEASURED, level=Level.POINT.value)
    return _with(made, calibration, point, exact=exact, half_width=half_width)


def pooled_corrections(pool: Pool) -> Corrections | None:
    """Return what keys like it say about a question that was never measured; ``None`` when they say nothing."""
    if not pool.shares:
        return None
    made = Corrections(
        calibration=pool.group.name, level=pool.level.value, num_measurements=pool.num_measurements, basis=CALIBRATED
    )
    return _pooled(made, pool)


def combine(parts: Mapping[Quantity, Corrections]) -> Corrections | None:
    """Return the corrections of every quantity as one; what it names is that of the allocated bytes, where there is one."""
    if not parts:
        return None
    allocated = parts.get(Quantity.ALLOCATED)
    # Other quantities alone leave the allocated bytes, and the interval of them, as they are.
    made = allocated or replace(next(iter(parts.values())), relative_error=None, basis=CALIBRATED)
    for quantity, one in parts.items():
        match quantity:
            case Quantity.RESERVED:
                made = replace(
                    made,
                    reserved=one.reserved,
                    reserved_error=one.reserved_error,
                    reserved_at_most_bytes=one.reserved_at_most_bytes,
                )
            case Quantity.DEVICE:
                made = replace(made, outside=one.outside, outside_error=one.outside_error)
            case Quantity.STEP_TIME:
                made = replace(made, step_time_ratio=one.step_time_ratio, step_time_error=one.step_time_error)
            case Quantity.ALLOCATED:
                pass
    return made


def _with(
    made: Corrections, calibration: Calibration, point: MeasuredPoint, *, exact: Exact | None, half_width: float | None
) -> Corrections:
    error: float | None = _error(calibration, exact=exact, half_width=half_width)
    added = _added(calibration, point, exact)
    if calibration.quantity is Quantity.ALLOCATED:
        return replace(
            made,
            instants=added,
            relative_error=error,
            conformal=half_width is not None and exact is None,
            at_least_bytes=_at_least(calibration.at_least, point),
        )
    only = added.get(ONLY_PART, NOTHING)
    # What the key's own few measurements leave is no interval; the shipped one stays around the corrected figure.
    error = error if exact is not None or half_width is not None else None
    if calibration.quantity is Quantity.RESERVED:
        return replace(made, reserved=only, reserved_error=error, reserved_at_most_bytes=_at_most(calibration.at_most, point))
    if calibration.quantity is Quantity.DEVICE:
        return replace(made, outside=only, outside_error=error)
    return replace(made, step_time_ratio=_ratio(calibration, point, exact), step_time_error=error)


def _pooled(made: Corrections, pool: Pool) -> Corrections:
    only = InstantCorrection(share=pool.shares.get(ONLY_PART, 0.0))
    match pool.group.quantity:
        case Quantity.ALLOCATED:
            shares = {name: InstantCorrection(share=share) for name, share in pool.shares.items()}
            # Until enough was held out, what the family shows may be wrong by its whole size here.
            error = pool.half_width or max(EXACT_SHARE, *map(abs, pool.shares.values()))
            return replace(made, instants=shares, relative_error=error, conformal=pool.half_width is not None)
        case Quantity.RESERVED:
            return replace(made, reserved=only, reserved_error=pool.half_width)
        case Quantity.DEVICE:
            return replace(made, outside=only, outside_error=pool.half_width)
        case Quantity.STEP_TIME:
            return replace(made, step_time_ratio=exp(only.share), step_time_error=pool.half_width)


def _exact_at(calibration: Calibration, point: MeasuredPoint) -> Exact | None:
    return next((exact for exact in calibration.exact if exact.point == point), None)


def _added(calibration: Calibration, point: MeasuredPoint, exact: Exact | None) -> dict[str, InstantCorrection]:
    if exact is not None:
        return {name: InstantCorrection(fixed_bytes=round(residual)) for name, residual in exact.residuals.items()}
    names = dict.fromkeys((*calibration.curves, *calibration.shares))
    found = {
        name: InstantCorrection(
            fixed_bytes=round(calibration.curves[name].at(point)) if name in calibration.curves else 0,
            share=calibration.shares.get(name, 0.0),
        )
        for name in names
    }
    return {name: correction for name, correction in found.items() if correction != NOTHING}


def _ratio(calibration: Calibration, point: MeasuredPoint, exact: Exact | None) -> float:
    if exact is not None:
        return exp(exact.residuals.get(ONLY_PART, 0.0))
    curve = calibration.curves.get(ONLY_PART)
    return exp(calibration.shares.get(ONLY_PART, 0.0) + (curve.at(point) if curve is not None else 0.0))


def _error(calibration: Calibration, *, exact: Exact | None, half_width: float | None) -> float:
    if exact is not None:
        return RESERVED_SPREAD if calibration.quantity is Quantity.RESERVED else EXACT_SHARE
    return half_width if half_width is not None else calibration.relative_error


def _at_least(bounds: tuple[Bound, ...], point: MeasuredPoint) -> int:
    """Return what this point needs at least: as much as any smaller run that ran out of memory had reached."""
    return max((bound.bytes for bound in bounds if point.reaches(bound.point)), default=0)


def _at_most(bounds: tuple[Bound, ...], point: MeasuredPoint) -> int | None:
    """Return what this point needs at most: as little as any larger run made do with."""
    return min((bound.bytes for bound in bounds if bound.point.reaches(point)), default=None)
