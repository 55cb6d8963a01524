"""What readings of the field teach that know a process's whole memory and none of its parts: how much it needs at least.

``sacct``, DCGM and ``nvidia-smi`` look now and then, so that a true peak may lie between two looks: each of their peaks is a
lower bound of ``device_bytes`` at its point, and at every larger one. What is reserved and what lies beside the allocator add
up in it, and nothing tells how: a bound says nothing of either, and never moves allocated bytes, a curve or a half width. It
raises an answer that is below it, and leaves every other as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.calibration.derive import Bound, Calibration
from service.calibration.evidence import EXACT_SHARE, RESERVED_SPREAD, MeasuredPoint, Quantity
from service.calibration.sift import Rejected
from service.estimator.values.corrections import MOST_PER_MILLE

CURVE = "field"
"""What tells the bounds of a curve from what is learnt of its parts."""
MOST = MOST_PER_MILLE / 1000
"""A job of this model cannot need more times its analytic bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that was seen on a GPU at a point, in bytes, beside the analytic ``predicted``.

    ``whole`` says that the peak itself was read, by a probe that watched its own process: that bounds from above.
    """

    measurement: str
    point: MeasuredPoint
    bytes: int
    predicted: int
    whole: bool = False


def field_curve(curve: str) -> str:
    """Return the curve under which the bounds of a curve are kept."""
    return f"{curve}:{CURVE}"


def bounds_of(seen: Sequence[Seen]) -> Calibration | None:
    """Return what was seen in the field as bounds, with what contradicts a probe named; ``None`` where nothing was seen."""
    probed = [one for one in seen if one.whole]
    looks = sorted((one for one in seen if not one.whole), key=lambda one: one.measurement)
    reasons = {one.measurement: _contradiction(one, probed) for one in looks}
    kept = [one for one in looks if reasons[one.measurement] is None]
    if not looks:
        return None
    return Calibration(
        quantity=Quantity.DEVICE,
        curves={},
        relative_error=EXACT_SHARE,
        evidence=tuple(one.measurement for one in kept),
        at_least=tuple(Bound(measurement=one.measurement, point=one.point, bytes=one.bytes) for one in kept),
        rejected=tuple(Rejected(measurement=name, reason=reason) for name, reason in reasons.items() if reason is not None),
        num_claimed=len(kept),
    )


def least_at(calibration: Calibration, point: MeasuredPoint, *, without: str = "") -> int:
    """Return the bytes that a point needs at least, 0 where no bound reaches it; ``without`` one measurement."""
    reached = (one.bytes for one in calibration.at_least if point.reaches(one.point) and one.measurement != without)
    return max(reached, default=0)


def excess_of(seen: int, predicted: int) -> str | None:
    """Return in words why so many bytes on a device are not of a job that needs ``predicted``; ``None`` where they may be."""
    if seen <= predicted * MOST:
        return None
    return (
        f"{seen:,} bytes are more than {MOST:g} times the {predicted:,} of the analytic answer: another model or process was "
        "on the GPU"
    )


def _contradiction(look: Seen, probed: Sequence[Seen]) -> str | None:
    """Return in words why a look cannot have been of this job alone."""
    if (excess := excess_of(look.bytes, look.predicted)) is not None:
        return excess
    for known in probed:
        if known.point.reaches(look.point) and look.bytes > known.bytes * (1 + 2 * RESERVED_SPREAD):
            return (
                f"{look.bytes:,} bytes are more than {known.measurement} held at its peak, {known.bytes:,} in a run as large "
                "or larger: something else was on the GPU"
            )
    return None
