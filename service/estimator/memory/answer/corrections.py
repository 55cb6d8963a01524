"""What measurements add to the bytes beyond the allocated ones: to the allocator's slack, and to what lies beside it."""

from collections.abc import Sequence
from dataclasses import replace

from service.estimator.memory.intervals.ends import LEVEL, smallest_holding
from service.estimator.memory.overheads.overheads import Share
from service.estimator.values.corrections import NOTHING, Corrections, require_plausible
from service.estimator.values.result import Interval, Throughput


def corrected_slack(slack: Share, allocated_bytes: int, corrections: Corrections | None) -> Share:
    """Return the slack with what was measured of reserved bytes; nothing is reserved that is less than what is allocated."""
    if corrections is None or (corrections.reserved == NOTHING and corrections.reserved_at_most_bytes is None):
        return slack
    reserved = allocated_bytes + slack.point
    asked = reserved + corrections.reserved.at(0, reserved)
    require_plausible(corrections, "reserved bytes", reserved, asked)
    reserved = asked
    if corrections.reserved_at_most_bytes is not None:
        reserved = min(reserved, corrections.reserved_at_most_bytes)
    return _moved(slack, max(reserved - allocated_bytes, 0) - slack.point)


def error_at(error: float | None, errors: Sequence[float], level: float) -> tuple[float | None, bool]:
    """Return the share by which answers may be off at a level, and whether so many errors carry it; else their largest.

    ``error`` is that of the 0.95 level, and of every level where no ``errors`` stand beside it.
    """
    if error is None or not errors or level == LEVEL:
        return error, True
    held = smallest_holding(errors, level)
    return (max(errors), False) if held is None else (held, True)


def corrected_context(context: Share, beside: Share, corrections: Corrections | None, level: float = LEVEL) -> Share:
    """Return the context with what was measured of all that lies outside of the allocator, communicators (``beside``) too."""
    if corrections is None or (corrections.outside == NOTHING and corrections.outside_error is None):
        return context
    everything = context.point + beside.point
    added = max(corrections.outside.at(0, everything), -context.point)
    moved = _moved(context, added)
    error, carried = error_at(corrections.outside_error, corrections.outside_errors, level)
    if error is None:
        return moved
    doubt = round((everything + added) * error)
    low, high = max(moved.point - doubt, 0), moved.point + doubt
    if not carried:
        low, high = min(low, moved.low), max(high, moved.high)
    return replace(moved, low=low, high=high)


def raised_context(context: Share, device_bytes: int, least_bytes: int) -> Share:
    """Return the context with what is missing to what was seen on such a GPU: nothing tells what of it is whose."""
    missing = least_bytes - device_bytes
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


def measured_interval(point: int, error: float | None, otherwise: Interval, *, carried: bool = True) -> Interval:
    """Return the interval that measurements give; where too few carry the level it holds the other one as well."""
    if error is None:
        return otherwise
    low, high = max(0, round(point * (1 - error))), round(point * (1 + error))
    return Interval(low, high) if carried else Interval(min(low, otherwise.low), max(high, otherwise.high))


def as_timed(throughput: Throughput | None, ratio: float) -> Throughput | None:
    """Return how long a step takes, with what was measured of steps like it."""
    if throughput is None or ratio == 1.0:
        return throughput
    hours = throughput.hours_for_tokens
    return replace(
        throughput,
        step_time_s=throughput.step_time_s * ratio,
        tokens_per_second=throughput.tokens_per_second / ratio,
        tokens_per_second_per_gpu=throughput.tokens_per_second_per_gpu / ratio,
        mfu=throughput.mfu / ratio,
        hours_for_tokens=None if hours is None else hours * ratio,
        basis="calibrated",
    )


def _moved(share: Share, added: int) -> Share:
    if not added:
        return share
    return replace(
        share,
        point=share.point + added,
        low=max(share.low + added, 0),
        high=max(share.high + added, 0),
        formula=f"{share.formula} {added:+,} B measured",
        source=f"{share.source}; calibration",
    )
