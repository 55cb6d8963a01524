"""Corrections for the estimator from calibrations of one question."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any

from service.calibration.derive import Bound, Calibration, Exact
from service.calibration.evidence import EXACT_SHARE, RESERVED_SPREAD, MeasuredPoint, Quantity
from service.calibration.field import get_lower_bound
from service.calibration.pool import Level, Pool
from service.estimator.model.architecture import Architecture
from service.estimator.speed.learning import WIDEST
from service.estimator.values.batches import SequencePacking
from service.estimator.values.corrections import (
    NO_CORRECTION,
    SHIPPED_SPEEDS,
    Corrections,
    InstantCorrection,
    SpeedRatios,
)
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload, Workload

MEASURED, CALIBRATED, ANALYTIC = "measured", "calibrated", "analytic"
ONLY_PART = "all"
"""Name of the single part of a quantity that has no instants."""
MIN_LOG_RATIO = -log(WIDEST)
"""Logarithm of the smallest ratio of times that is believed where nobody measured."""


def get_point(architecture: Architecture, workload: Workload, layout: Layout) -> MeasuredPoint:
    """Return the point of a question on its calibration curve."""
    if isinstance(workload, TrainWorkload):
        return MeasuredPoint(
            num_layers=architecture.num_hidden_layers,
            micro_batch_size=workload.micro_batch_size,
            sequence_length=_get_row_length(workload),
            num_gpus=layout.num_gpus,
        )
    return MeasuredPoint(
        num_layers=architecture.num_hidden_layers,
        micro_batch_size=workload.num_sequences,
        sequence_length=workload.prompt_tokens,
        output_tokens=workload.output_tokens,
        num_gpus=layout.num_gpus,
    )


def _get_row_length(workload: TrainWorkload) -> int:
    """Return the tokens of a row, shorter where the data are."""
    is_padded = workload.sequence_lengths and workload.packing is SequencePacking.NONE
    return workload.rows[1] if is_padded else workload.sequence_length


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCalibration:
    """A key's calibration of one quantity with its conformal half width.

    It holds whatever the point of a question; ``half_width`` is that of its kind of run.
    """

    name: str
    calibration: Calibration
    half_width: float | None = None
    errors: tuple[float, ...] = ()
    """Residuals that the half width was chosen from, for other levels."""


def build_corrections(
    sources: Sequence[KnownCalibration | Pool],
    point: MeasuredPoint,
    *,
    speeds: SpeedRatios | None = None,
) -> Corrections:
    """Combine calibrations of several quantities into the corrections for one point.

    At least one quantity is given, or the machine's ``speeds``. The name is that of the allocated
    bytes' calibration, where there is one: without, the bytes and their interval stay. A point
    whose time was measured has that time; of any other the speeds say more than a ratio does.
    """
    timed = [source for source in sources if _get_quantity(source).is_ratio]
    if speeds is not None and all(_get_basis(source, point) != MEASURED for source in timed):
        return _add_speeds([source for source in sources if source not in timed], point, speeds)
    fields: dict[str, Any] = {}
    named_source = next(
        (source for source in sources if _get_quantity(source) is Quantity.ALLOCATED), sources[0]
    )
    for source in sources:
        fields |= (
            _correct_from_pool(source)
            if isinstance(source, Pool)
            else _correct_at_point(source, point)
        )
    bases = {_get_quantity(source).value: _get_basis(source, point) for source in sources}
    return Corrections(
        **fields,
        **_describe_source(named_source, point),
        bases=bases,
        machine_speeds=SHIPPED_SPEEDS if speeds is None else speeds,
    )


def _add_speeds(
    sources: Sequence[KnownCalibration | Pool], point: MeasuredPoint, speeds: SpeedRatios
) -> Corrections:
    """Return the corrections of a machine beside those of the bytes."""
    base = (
        build_corrections(sources, point)
        if sources
        else Corrections(calibration=_MACHINE, basis=ANALYTIC, level=Level.NONE.value)
    )
    times = {quantity.value: CALIBRATED for quantity in Quantity if quantity.is_ratio}
    return replace(base, speeds=speeds, bases={**base.bases, **times})


_MACHINE = "machine"


def apply_lower_bound(
    corrections: Corrections | None,
    field_calibrations: Sequence[KnownCalibration],
    point: MeasuredPoint,
) -> Corrections | None:
    """Add a lower bound of the GPU's bytes to corrections.

    The bound comes from device readings in the field at points that this one reaches.
    """
    lower_bound = max(
        (get_lower_bound(source.calibration, point) for source in field_calibrations), default=0
    )
    if not lower_bound:
        return corrections
    reached = {
        bound.measurement
        for source in field_calibrations
        for bound in source.calibration.at_least
        if point.reaches(bound.point)
    }
    base = corrections or Corrections(
        calibration=field_calibrations[0].name, basis=ANALYTIC, level=Level.NONE.value
    )
    if base.is_of_time_alone:
        base = replace(base, calibration=field_calibrations[0].name)
    return replace(base, device_at_least_bytes=lower_bound, num_seen=len(reached))


def _get_basis(source: KnownCalibration | Pool, point: MeasuredPoint) -> str:
    """Return whether a probe measured a quantity at this point."""
    exact = None if isinstance(source, Pool) else _find_exact(source.calibration, point)
    return CALIBRATED if exact is None or exact.claimed else MEASURED


def _get_quantity(source: KnownCalibration | Pool) -> Quantity:
    return source.group.quantity if isinstance(source, Pool) else source.calibration.quantity


def _describe_source(source: KnownCalibration | Pool, point: MeasuredPoint) -> dict[str, Any]:
    if isinstance(source, Pool):
        return _describe_pool(source)
    # A time or a reserved reading of this very point does not make its allocated bytes measured
    # ones.
    exact = _find_exact(source.calibration, point)
    at_point = source.calibration.quantity is Quantity.ALLOCATED and exact is not None
    measured = at_point and exact is not None and not exact.claimed
    return {
        "proven": measured,
        "num_imported": source.calibration.num_claimed,
        "calibration": source.name,
        "basis": MEASURED if measured else CALIBRATED,
        "level": (Level.POINT if at_point else Level.KEY).value,
        "num_measurements": len(source.calibration.evidence),
    }


def _describe_pool(pool: Pool) -> dict[str, Any]:
    return {
        "calibration": pool.group.name,
        "basis": CALIBRATED,
        "level": pool.level.value,
        "num_measurements": pool.num_measurements,
    }


def _correct_at_point(source: KnownCalibration, point: MeasuredPoint) -> dict[str, Any]:
    calibration, half_width = source.calibration, source.half_width
    exact = _find_exact(calibration, point)
    error = _compute_error(calibration, exact=exact, half_width=half_width)
    errors = source.errors if exact is None and half_width is not None else ()
    if calibration.quantity is Quantity.ALLOCATED:
        return {
            "instants": _collect_part_corrections(calibration, point, exact),
            "relative_error": error,
            "conformal": half_width is not None and exact is None,
            "allocated_errors": errors,
            "at_least_bytes": _find_lower_bound(calibration.at_least, point),
        }
    if calibration.quantity is Quantity.STEP_TIME:
        return {"step_time_ratio": _compute_ratio(calibration, point, exact)}
    if calibration.quantity is Quantity.PREFILL_TIME:
        return {"prefill_time_ratio": _compute_ratio(calibration, point, exact)}
    # What the key's own few measurements leave is no interval; the shipped one stays around the
    # corrected figure.
    own_error = error if exact is not None or half_width is not None else None
    only = _collect_part_corrections(calibration, point, exact).get(ONLY_PART, NO_CORRECTION)
    if calibration.quantity is Quantity.DEVICE:
        return {"outside": only, "outside_error": own_error, "outside_errors": errors}
    at_most = _find_upper_bound(calibration.at_most, point)
    return {
        "reserved": only,
        "reserved_error": own_error,
        "reserved_errors": errors,
        "reserved_at_most_bytes": at_most,
    }


def _correct_from_pool(pool: Pool) -> dict[str, Any]:
    only = InstantCorrection(share=pool.shares.get(ONLY_PART, 0.0))
    errors = pool.errors if pool.half_width is not None else ()
    match pool.group.quantity:
        case Quantity.ALLOCATED:
            shares = {name: InstantCorrection(share=share) for name, share in pool.shares.items()}
            # Until enough was held out, what the family shows may be wrong by its whole size here.
            error = pool.half_width or max(EXACT_SHARE, *map(abs, pool.shares.values()))
            conformal = pool.half_width is not None
            return {
                "instants": shares,
                "relative_error": error,
                "conformal": conformal,
                "allocated_errors": errors,
            }
        case Quantity.RESERVED:
            return {"reserved": only, "reserved_error": pool.half_width, "reserved_errors": errors}
        case Quantity.DEVICE:
            return {"outside": only, "outside_error": pool.half_width, "outside_errors": errors}
        case Quantity.STEP_TIME:
            return {"step_time_ratio": exp(only.share)}
        case Quantity.PREFILL_TIME:
            return {"prefill_time_ratio": exp(only.share)}


def _find_exact(calibration: Calibration, point: MeasuredPoint) -> Exact | None:
    return next((exact for exact in calibration.exact if exact.point == point), None)


def _collect_part_corrections(
    calibration: Calibration, point: MeasuredPoint, exact: Exact | None
) -> dict[str, InstantCorrection]:
    if exact is not None:
        return {
            name: InstantCorrection(fixed_bytes=round(residual))
            for name, residual in exact.residuals.items()
        }
    names = dict.fromkeys((*calibration.curves, *calibration.shares))
    corrections = {
        name: InstantCorrection(
            fixed_bytes=round(calibration.curves[name].at(point))
            if name in calibration.curves
            else 0,
            share=calibration.shares.get(name, 0.0),
        )
        for name in names
    }
    return {
        name: correction for name, correction in corrections.items() if correction != NO_CORRECTION
    }


def _compute_ratio(calibration: Calibration, point: MeasuredPoint, exact: Exact | None) -> float:
    if exact is not None:
        return exp(exact.residuals.get(ONLY_PART, 0.0))
    curve = calibration.curves.get(ONLY_PART)
    added = curve.at(point) if curve is not None else 0.0
    log_ratio = calibration.shares.get(ONLY_PART, 0.0) + added
    return exp(min(max(log_ratio, MIN_LOG_RATIO), -MIN_LOG_RATIO))


def _compute_error(
    calibration: Calibration, *, exact: Exact | None, half_width: float | None
) -> float:
    if exact is not None:
        may_differ = calibration.quantity is Quantity.RESERVED and exact.claimed
        return max(exact.error, RESERVED_SPREAD if may_differ else EXACT_SHARE)
    return half_width if half_width is not None else calibration.relative_error


def _find_lower_bound(bounds: tuple[Bound, ...], point: MeasuredPoint) -> int:
    """Return the lower bound of a point's bytes.

    It is as much as any smaller run that ran out of memory had reached.
    """
    return max((bound.bytes for bound in bounds if point.reaches(bound.point)), default=0)


def _find_upper_bound(bounds: tuple[Bound, ...], point: MeasuredPoint) -> int | None:
    """Return the upper bound of a point's bytes.

    It is as little as any larger run made do with.
    """
    return min((bound.bytes for bound in bounds if bound.point.reaches(point)), default=None)
