"""What calibrations say about one question: corrections for the estimator."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any

from service.calibration.derive import Bound, Calibration, Exact
from service.calibration.evidence import EXACT_SHARE, RESERVED_SPREAD, MeasuredPoint, Quantity
from service.calibration.field import least_at
from service.calibration.pool import Level, Pool
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import NOTHING, Corrections, InstantCorrection
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload, Workload

MEASURED, CALIBRATED, ANALYTIC = "measured", "calibrated", "analytic"
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
    known = Known(name=calibration_id, calibration=calibration, half_width=half_width)
    return corrections_of([known], point)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of one quantity of a question, whatever its point: its key's calibration, with the width of its kind."""

    name: str
    calibration: Calibration
    half_width: float | None = None
    errors: tuple[float, ...] = ()
    """What the half width was chosen from, for other levels."""


def corrections_of(known: Sequence[Known | Pool], point: MeasuredPoint) -> Corrections:
    """Return the corrections for one point from what is known of at least one quantity.

    What they are called is that of the allocated bytes, where there is one: without, the bytes and their interval stay.
    """
    found: dict[str, Any] = {}
    first = next((one for one in known if _quantity(one) is Quantity.ALLOCATED), known[0])
    for one in known:
        found |= _pooled(one) if isinstance(one, Pool) else _at(one, point)
    return Corrections(**found, **_named(first, point))


def bounded(corrections: Corrections | None, seen: Sequence[Known], point: MeasuredPoint) -> Corrections | None:
    """Return corrections with what a point needs at least of its GPU, from what was seen in the field at points it reaches."""
    least = max((least_at(one.calibration, point) for one in seen), default=0)
    if not least:
        return corrections
    reached = {bound.measurement for one in seen for bound in one.calibration.at_least if point.reaches(bound.point)}
    base = corrections or Corrections(calibration=seen[0].name, basis=ANALYTIC, level=Level.NONE.value)
    return replace(base, device_at_least_bytes=least, num_seen=len(reached))


def pooled_corrections(pool: Pool) -> Corrections | None:
    """Return what keys like it say about a question that was never measured; ``None`` when they say nothing."""
    return Corrections(**_pooled(pool), **_named_pool(pool)) if pool.shares else None


def _quantity(one: Known | Pool) -> Quantity:
    return one.group.quantity if isinstance(one, Pool) else one.calibration.quantity


def _named(one: Known | Pool, point: MeasuredPoint) -> dict[str, Any]:
    if isinstance(one, Pool):
        return _named_pool(one)
    # A time or a reserved reading of this very point does not make its allocated bytes measured ones.
    exact = _exact_at(one.calibration, point)
    measured = one.calibration.quantity is Quantity.ALLOCATED and exact is not None
    return {
        "proven": measured and exact is not None and not exact.claimed,
        "num_imported": one.calibration.num_claimed,
        "calibration": one.name,
        "basis": MEASURED if measured else CALIBRATED,
        "level": (Level.POINT if measured else Level.KEY).value,
        "num_measurements": len(one.calibration.evidence),
    }


def _named_pool(pool: Pool) -> dict[str, Any]:
    return {
        "calibration": pool.group.name,
        "basis": CALIBRATED,
        "level": pool.level.value,
        "num_measurements": pool.num_measurements,
    }


def _at(known: Known, point: MeasuredPoint) -> dict[str, Any]:
    calibration, half_width = known.calibration, known.half_width
    exact = _exact_at(calibration, point)
    error = _error(calibration, exact=exact, half_width=half_width)
    errors = known.errors if exact is None and half_width is not None else ()
    if calibration.quantity is Quantity.ALLOCATED:
        return {
            "instants": _added(calibration, point, exact),
            "relative_error": error,
            "conformal": half_width is not None and exact is None,
            "allocated_errors": errors,
            "at_least_bytes": _at_least(calibration.at_least, point),
        }
    # What the key's own few measurements leave is no interval; the shipped one stays around the corrected figure.
    alone = error if exact is not None or half_width is not None else None
    if calibration.quantity is Quantity.STEP_TIME:
        return {"step_time_ratio": _ratio(calibration, point, exact), "step_time_error": alone}
    only = _added(calibration, point, exact).get(ONLY_PART, NOTHING)
    if calibration.quantity is Quantity.DEVICE:
        return {"outside": only, "outside_error": alone, "outside_errors": errors}
    at_most = _at_most(calibration.at_most, point)
    return {"reserved": only, "reserved_error": alone, "reserved_errors": errors, "reserved_at_most_bytes": at_most}


def _pooled(pool: Pool) -> dict[str, Any]:
    only = InstantCorrection(share=pool.shares.get(ONLY_PART, 0.0))
    errors = pool.errors if pool.half_width is not None else ()
    match pool.group.quantity:
        case Quantity.ALLOCATED:
            shares = {name: InstantCorrection(share=share) for name, share in pool.shares.items()}
            # Until enough was held out, what the family shows may be wrong by its whole size here.
            error = pool.half_width or max(EXACT_SHARE, *map(abs, pool.shares.values()))
            conformal = pool.half_width is not None
            return {"instants": shares, "relative_error": error, "conformal": conformal, "allocated_errors": errors}
        case Quantity.RESERVED:
            return {"reserved": only, "reserved_error": pool.half_width, "reserved_errors": errors}
        case Quantity.DEVICE:
            return {"outside": only, "outside_error": pool.half_width, "outside_errors": errors}
        case Quantity.STEP_TIME:
            return {"step_time_ratio": exp(only.share), "step_time_error": pool.half_width}


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
        return max(exact.error, RESERVED_SPREAD if calibration.quantity is Quantity.RESERVED else EXACT_SHARE)
    return half_width if half_width is not None else calibration.relative_error


def _at_least(bounds: tuple[Bound, ...], point: MeasuredPoint) -> int:
    """Return what this point needs at least: as much as any smaller run that ran out of memory had reached."""
    return max((bound.bytes for bound in bounds if point.reaches(bound.point)), default=0)


def _at_most(bounds: tuple[Bound, ...], point: MeasuredPoint) -> int | None:
    """Return what this point needs at most: as little as any larger run made do with."""
    return min((bound.bytes for bound in bounds if bound.point.reaches(point)), default=None)
