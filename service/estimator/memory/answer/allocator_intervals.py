"""Intervals of the allocated and the reserved bytes."""

from service.estimator.memory.allocator.kernel_buffers import find_kernel_buffers
from service.estimator.memory.answer.corrections import apply_measured_error, select_error
from service.estimator.memory.answer.partial_estimate import PartialEstimate
from service.estimator.memory.intervals.allocator_ratios import ROUNDING
from service.estimator.memory.intervals.ends import (
    PER_MILLION,
    get_level_index,
    get_residual_ends,
)
from service.estimator.memory.intervals.replay_classes import (
    RANKS_CLASS,
    RECORDED_FAMILIES,
    TENSORS_CLASS,
    VARIANT_CLASS,
    WHOLE_KINDS,
    is_recorded_gpu,
    select_replay_class,
)
from service.estimator.memory.overheads.gpu_properties import find_gpu_properties
from service.estimator.memory.overheads.overheads import Overhead
from service.estimator.values.corrections import MAX_PER_MILLE, MIN_PER_MILLE, Corrections
from service.estimator.values.device import Device
from service.estimator.values.result import Interval
from service.estimator.values.units import MIB

SMALL_SEGMENT_BYTES = 2 * MIB
"""The smallest segment of PyTorch's allocator (``kSmallBuffer``)."""
LARGE_SEGMENT_BYTES = 20 * MIB
"""The segment that its blocks of 1 to 10 MiB share (``kLargeBuffer``)."""
_REPLAYED_KINDS = frozenset({"training", "adapters", "sharded"})
"""Kinds whose residuals are those of replays."""
_NEAR_CLASSES = frozenset({RANKS_CLASS, VARIANT_CLASS})
APPROXIMATE_PER_MILLE = (MIN_PER_MILLE, MAX_PER_MILLE)


def compute_allocated_interval(
    partial_estimate: PartialEstimate, corrections: Corrections | None, level: float, kind: str
) -> Interval:
    """Return the interval of the allocated bytes of a kind of answers."""
    allocated = partial_estimate.peak.allocated_bytes
    if partial_estimate.approximate:
        low, high = APPROXIMATE_PER_MILLE
        return Interval(allocated * low // 1000, allocated * high // 1000)
    error, covered = None, True
    if corrections is not None:
        error, covered = select_error(
            corrections.relative_error, corrections.allocated_errors, level
        )
    low_ratio, high_ratio = get_residual_ends(kind, "allocated", level)
    upper = allocated + _compute_rounding(partial_estimate, level)
    # What is there between steps is counted tensor by tensor: no reading of the peak is below it.
    analytic = Interval(
        max(allocated * low_ratio // PER_MILLION, min(partial_estimate.steady_bytes, allocated)),
        -(-upper * high_ratio // PER_MILLION),
    )
    if corrections is None or error is None:
        return analytic
    learnt = Interval(allocated - round(allocated * error), allocated + round(allocated * error))
    if corrections.basis == "measured" or (corrections.conformal and covered):
        return learnt
    return Interval(min(learnt.low, analytic.low), max(learnt.high, analytic.high))


def _compute_rounding(partial_estimate: PartialEstimate, level: float) -> int:
    """Return by how much the allocator's blocks exceed their tensors.

    It is an upper bound where no replay counted them.
    """
    if partial_estimate.replayed is None:
        return (
            partial_estimate.peak.allocated_bytes * ROUNDING[get_level_index(level)] // PER_MILLION
        )
    return max(partial_estimate.replayed.allocated_bytes - partial_estimate.replayed.peak_bytes, 0)


def select_kinds(
    partial_estimate: PartialEstimate, device: Device | None, reserved_bytes: int
) -> tuple[str, str]:
    """Return the classes of answers whose residuals make the intervals.

    They are those of the allocated and of the reserved bytes.
    """
    kind, family = partial_estimate.kind, partial_estimate.family
    if family is None or device is None or not _is_known(device):
        return kind, kind
    elsewhere = not is_recorded_gpu(device.name)
    if _is_nearly_recorded(partial_estimate) and not elsewhere:
        is_rank = partial_estimate.linked_gpus > 1
        return TENSORS_CLASS, RANKS_CLASS if is_rank else VARIANT_CLASS
    if kind not in WHOLE_KINDS:
        return kind, kind
    if elsewhere and (not family or partial_estimate.linked_gpus > 1):
        return kind, kind
    if partial_estimate.replayed is None:
        return TENSORS_CLASS, kind
    allocated_bytes = partial_estimate.peak.allocated_bytes
    return TENSORS_CLASS, select_replay_class(
        family,
        allocated_bytes,
        reserved_bytes,
        elsewhere=elsewhere,
        served=kind == "inference" and partial_estimate.linked_gpus == 1,
    )


def _is_nearly_recorded(partial_estimate: PartialEstimate) -> bool:
    """Return whether a recorded family runs what none of its runs had."""
    return (
        not partial_estimate.family
        and partial_estimate.near_family in RECORDED_FAMILIES
        and partial_estimate.replayed is not None
    )


def _is_known(device: Device) -> bool:
    """Return whether a GPU's kernels and their buffers are known.

    Before compute capability 8.0 attention has other kernels than any that was recorded.
    """
    properties = find_gpu_properties(device.name)
    return (
        find_kernel_buffers(device) is not None
        and properties is not None
        and properties.supports_flash
    )


def compute_reserved_interval(  # noqa: PLR0913, PLR0917 - what the interval is made of
    partial_estimate: PartialEstimate,
    allocated_interval: Interval,
    slack: Overhead,
    limited_slack: Overhead,
    corrections: Corrections | None,
    level: float,
    kind: str,
) -> Interval:
    """Return the interval of the reserved bytes of a kind of answers.

    They are never fewer than the allocated ones. A replay errs by whole segments, so by one at
    least, of either pool where something was not recorded. A ratio has quantiles of its own; where
    the kind is never replayed, its residuals stand beside them. A job on a full GPU reserves what
    there is, however much more it would have reserved with room (``limited_slack``).
    """
    allocated = partial_estimate.peak.allocated_bytes
    point = allocated + slack.point
    low_ratio, high_ratio = get_residual_ends(kind, "reserved", level)
    low, high = point * low_ratio // PER_MILLION, -(-point * high_ratio // PER_MILLION)
    if partial_estimate.replayed is not None:
        segment = LARGE_SEGMENT_BYTES if kind in _NEAR_CLASSES else SMALL_SEGMENT_BYTES
        low, high = min(low, point - segment), max(high, point + segment)
    else:
        # The allocated bytes are a point, unless the model itself is only roughly known.
        base_low = base_high = allocated
        if partial_estimate.approximate:
            base_low, base_high = allocated_interval.low, allocated_interval.high
        ratio_low, ratio_high = base_low + slack.low, base_high + slack.high
        low, high = (
            (ratio_low, ratio_high)
            if partial_estimate.kind in _REPLAYED_KINDS
            else (min(low, ratio_low), max(high, ratio_high))
        )
    if corrections is not None:
        error, covered = select_error(
            corrections.reserved_error, corrections.reserved_errors, level
        )
        measured = apply_measured_error(point, error, Interval(low, high), covered=covered)
        low, high = measured.low, measured.high
    return Interval(
        min(max(low, allocated_interval.low), allocated + limited_slack.point),
        max(high, allocated_interval.high),
    )
