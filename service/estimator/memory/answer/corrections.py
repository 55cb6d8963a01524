"""Corrections of the bytes beyond the allocated ones.

Measurements correct the allocator's slack, and everything on the device outside of the allocator.
"""

from collections.abc import Sequence
from dataclasses import replace

from service.estimator.memory.intervals.ends import LEVEL, find_conformal_width
from service.estimator.memory.overheads.overheads import Overhead
from service.estimator.values.corrections import NO_CORRECTION, Corrections, check_plausible
from service.estimator.values.device import Device
from service.estimator.values.result import Interval, Throughput

CALIBRATED, MEASURED = "calibrated", "measured"


def correct_slack(
    slack: Overhead, allocated_bytes: int, corrections: Corrections | None
) -> Overhead:
    """Return the slack corrected by measured reserved bytes.

    Reserved bytes never fall below the allocated ones.
    """
    if corrections is None or (
        corrections.reserved == NO_CORRECTION and corrections.reserved_at_most_bytes is None
    ):
        return slack
    reserved = allocated_bytes + slack.point
    corrected = reserved + corrections.reserved.compute_bytes(0, reserved)
    check_plausible(corrections, "reserved bytes", reserved, corrected)
    reserved = corrected
    if corrections.reserved_at_most_bytes is not None:
        reserved = min(reserved, corrections.reserved_at_most_bytes)
    return _shift_overhead(slack, max(reserved - allocated_bytes, 0) - slack.point)


def select_error(
    error: float | None, errors: Sequence[float], level: float
) -> tuple[float | None, bool]:
    """Return a level's relative error, and whether the errors cover it.

    Where too few errors cover the level it is their largest. ``error`` is that of the 0.95 level,
    and of every level where no ``errors`` stand beside it.
    """
    if error is None or not errors or level == LEVEL:
        return error, True
    width = find_conformal_width(errors, level)
    return (max(errors), False) if width is None else (width, True)


def correct_context(
    context: Overhead, links: Overhead, corrections: Corrections | None, level: float = LEVEL
) -> Overhead:
    """Return the context corrected by measured bytes outside the allocator.

    The measurement includes communicators (``links``).
    """
    if corrections is None or (
        corrections.outside == NO_CORRECTION and corrections.outside_error is None
    ):
        return context
    total_bytes = context.point + links.point
    added = max(corrections.outside.compute_bytes(0, total_bytes), -context.point)
    shifted = _shift_overhead(context, added)
    error, covered = select_error(corrections.outside_error, corrections.outside_errors, level)
    if error is None:
        return shifted
    margin = round((total_bytes + added) * error)
    low, high = max(shifted.point - margin, 0), shifted.point + margin
    if not covered:
        low, high = min(low, shifted.low), max(high, shifted.high)
    return replace(shifted, low=low, high=high)


def increase_context(
    context: Overhead, beside_bytes: int, corrections: Corrections | None, device: Device | None
) -> Overhead:
    """Return the context raised to the bytes seen on a whole GPU.

    Nothing tells which process those bytes belong to. ``beside_bytes`` are those of our own job
    beside its context.
    """
    if corrections is None or not corrections.device_at_least_bytes or device is None:
        return context
    # What was seen on a GPU that a job filled is no more than what it could have had.
    seen_bytes = min(corrections.device_at_least_bytes, device.usable_bytes)
    missing = seen_bytes - beside_bytes - context.point
    if missing <= 0:
        return context
    return replace(
        context,
        point=context.point + missing,
        low=context.low + missing,
        high=context.high + missing,
        formula=f"{context.formula} +{missing:,} B seen on a GPU in use, whoever they belong to",
        source=f"{context.source}; imported readings",
    )


def apply_measured_error(
    point: int, error: float | None, analytic: Interval, *, covered: bool = True
) -> Interval:
    """Return the interval that a measured error gives.

    Where too few errors cover the level it holds the analytic one as well.
    """
    if error is None:
        return analytic
    low, high = max(0, round(point * (1 - error))), round(point * (1 + error))
    return (
        Interval(low, high)
        if covered
        else Interval(min(low, analytic.low), max(high, analytic.high))
    )


def correct_throughput(
    throughput: Throughput | None,
    ratio: float,
    *,
    prefill_ratio: float = 1.0,
    basis: str = CALIBRATED,
) -> Throughput | None:
    """Return the step's throughput scaled by a measured ratio.

    ``ratio`` is measured over analytic time of steps like it, ``prefill_ratio`` that of prefills,
    and ``basis`` says whether this very step was measured.
    """
    if throughput is None or (ratio == prefill_ratio == 1.0 and basis != MEASURED):
        return throughput
    prefill_s = throughput.prefill_time_s
    hours = throughput.hours_for_tokens
    return replace(
        throughput,
        step_time_s=throughput.step_time_s * ratio,
        tokens_per_second=throughput.tokens_per_second / ratio,
        tokens_per_second_per_gpu=throughput.tokens_per_second_per_gpu / ratio,
        mfu=throughput.mfu / ratio,
        hours_for_tokens=None if hours is None else hours * ratio,
        prefill_time_s=None if prefill_s is None else prefill_s * prefill_ratio,
        host_time_s=throughput.host_time_s * ratio,
        gpu_time_s=throughput.gpu_time_s * ratio,
        basis=basis,
    )


def _shift_overhead(overhead: Overhead, added: int) -> Overhead:
    if not added:
        return overhead
    return replace(
        overhead,
        point=overhead.point + added,
        low=max(overhead.low + added, 0),
        high=max(overhead.high + added, 0),
        formula=f"{overhead.formula} {added:+,} B measured",
        source=f"{overhead.source}; calibration",
    )
