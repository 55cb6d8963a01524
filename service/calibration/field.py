"""Lower bounds from device readings of a process's whole memory.

``sacct``, DCGM and ``nvidia-smi`` sample now and then, so that a true peak may lie between two
samples: each of their peaks is a lower bound of ``device_bytes`` at its point, and at every larger
one. What is reserved and what lies beside the allocator add up in it, and nothing tells how: a
bound says nothing of either, and never moves allocated bytes, a curve or a half width. It raises an
answer that is below it, and leaves every other as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.calibration.derive import Bound, Calibration
from service.calibration.evidence import EXACT_SHARE, RESERVED_SPREAD, MeasuredPoint, Quantity
from service.calibration.sift import RejectedMeasurement
from service.estimator.values.corrections import MAX_PER_MILLE

CURVE = "field"
"""Suffix of the curves of bounds, apart from what is learnt of the parts."""
MAX_RATIO = MAX_PER_MILLE / 1000
"""Largest plausible ratio of a job's bytes to its analytic bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """Device memory in use at a point, beside the analytic ``predicted``.

    Both in bytes. ``is_full_peak`` says that the peak itself was read, by a probe that watched its
    own process: that bounds from above.
    """

    measurement: str
    point: MeasuredPoint
    bytes: int
    predicted: int
    is_full_peak: bool = False


def get_device_curve(curve: str) -> str:
    """Return the curve under which the bounds of a curve are stored."""
    return f"{curve}:{CURVE}"


def derive_bounds(readings: Sequence[DeviceReading]) -> Calibration | None:
    """Derive lower bounds from device readings.

    Readings that contradict a probe are rejected with their reason. ``None`` where nothing was
    read.
    """
    probed = [reading for reading in readings if reading.is_full_peak]
    samples = sorted(
        (reading for reading in readings if not reading.is_full_peak),
        key=lambda reading: reading.measurement,
    )
    reasons = {reading.measurement: _explain_contradiction(reading, probed) for reading in samples}
    accepted = [reading for reading in samples if reasons[reading.measurement] is None]
    if not samples:
        return None
    return Calibration(
        quantity=Quantity.DEVICE,
        curves={},
        relative_error=EXACT_SHARE,
        evidence=tuple(reading.measurement for reading in accepted),
        at_least=tuple(
            Bound(measurement=reading.measurement, point=reading.point, bytes=reading.bytes)
            for reading in accepted
        ),
        rejected=tuple(
            RejectedMeasurement(measurement=name, reason=reason)
            for name, reason in reasons.items()
            if reason is not None
        ),
        num_claimed=len(accepted),
    )


def get_lower_bound(calibration: Calibration, point: MeasuredPoint, *, without: str = "") -> int:
    """Return the lower bound of a point's bytes, else 0.

    The bound of the measurement ``without`` is left out.
    """
    reached = (
        bound.bytes
        for bound in calibration.at_least
        if point.reaches(bound.point) and bound.measurement != without
    )
    return max(reached, default=0)


def explain_excess(seen: int, predicted: int) -> str | None:
    """Explain why a device reading is implausible for a job.

    ``predicted`` are the bytes that the job needs; ``None`` where the reading is plausible.
    """
    if seen <= predicted * MAX_RATIO:
        return None
    return (
        f"{seen:,} bytes are more than {MAX_RATIO:g} times the {predicted:,} of the analytic "
        "answer: another model or process was on the GPU"
    )


def _explain_contradiction(reading: DeviceReading, probed: Sequence[DeviceReading]) -> str | None:
    """Explain why a reading cannot be of this job alone."""
    if (excess := explain_excess(reading.bytes, reading.predicted)) is not None:
        return excess
    for probe in probed:
        if probe.point.reaches(reading.point) and reading.bytes > probe.bytes * (
            1 + 2 * RESERVED_SPREAD
        ):
            return (
                f"{reading.bytes:,} bytes are more than {probe.measurement} held at its peak, "
                f"{probe.bytes:,} in a run as large or larger: something else was on the GPU"
            )
    return None
