"""Selection of the measurements that may teach a calibration.

Every rejection has its reason; the order in which measurements came does not matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.calibration.evidence import (
    RESERVED_SPREAD,
    Evidence,
    MeasuredPoint,
    Quantity,
    tolerance,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedMeasurement:
    """A rejected measurement and the reason."""

    measurement: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredEvidence:
    """Evidence split into accepted, bounding and rejected measurements.

    Accepted measurements teach a curve; bounding ones only bound it.
    """

    accepted: tuple[Evidence, ...] = ()
    bounding: tuple[Evidence, ...] = ()
    rejected: tuple[RejectedMeasurement, ...] = ()


def filter_evidence(evidence: Sequence[Evidence]) -> FilteredEvidence:
    """Split evidence of one key and quantity.

    Memory cannot fall while tokens grow, and one point has one need. Of measurements that say
    otherwise, the one that contradicts most others goes; of two that contradict each other the
    larger size, which should have needed more, and of one size the one that is further from the
    analytic answer.
    """
    ordered = sorted(
        evidence,
        key=lambda sample: (sample.measurement, sample.is_extra_size, sample.point.num_tokens),
    )
    rejected = [
        RejectedMeasurement(measurement=sample.measurement, reason=reason)
        for sample in ordered
        if (reason := _explain_rejection(sample))
    ]
    fit = [sample for sample in ordered if not _explain_rejection(sample)]
    curve = [sample for sample in fit if not sample.is_one_sided]
    while conflicts := _find_conflicts(curve):
        index = max(
            conflicts,
            key=lambda position: (
                len(conflicts[position]),
                curve[position].point.num_tokens,
                curve[position].distance,
                curve[position].measurement,
            ),
        )
        rejected.append(
            _reject_contradictory(
                curve[index], [curve[other] for other in sorted(conflicts[index])]
            ),
        )
        curve = [sample for position, sample in enumerate(curve) if position != index]
    # What a measurement ran beside its question is worth no more than what it answered.
    believed = {sample.measurement for sample in curve if not sample.is_extra_size}
    return FilteredEvidence(
        accepted=tuple(sample for sample in curve if sample.measurement in believed),
        bounding=tuple(sample for sample in fit if sample.is_one_sided),
        rejected=tuple(rejected),
    )


def _explain_rejection(sample: Evidence) -> str | None:
    if not sample.parts:
        return "nothing was measured that the estimator has a figure for"
    if not sample.transferable:
        return "the kernels were not those that CUDA would choose"
    return None


def _reject_contradictory(worst: Evidence, against: Sequence[Evidence]) -> RejectedMeasurement:
    same = [sample.measurement for sample in against if worst.contradicts(sample)]
    other = [sample.measurement for sample in against if sample.measurement not in same]
    reasons = []
    if same:
        reasons.append(f"the same point was measured otherwise: it contradicts {', '.join(same)}")
    if other:
        reasons.append(
            f"memory would fall while the batch grows: it contradicts {', '.join(other)}"
        )
    return RejectedMeasurement(measurement=worst.measurement, reason="; ".join(reasons))


def _find_conflicts(curve: Sequence[Evidence]) -> dict[int, set[int]]:
    """Return which samples contradict which, by index."""
    conflicts: dict[int, set[int]] = {}
    for index, sample in enumerate(curve):
        for position, other in enumerate(curve[index + 1 :], start=index + 1):
            if sample.contradicts(other) or not _is_monotonic(sample, other):
                conflicts.setdefault(index, set()).add(position)
                conflicts.setdefault(position, set()).add(index)
    return conflicts


def _is_monotonic(first: Evidence, second: Evidence) -> bool:
    if first.quantity.is_ratio:
        return True
    small, large = sorted((first, second), key=lambda sample: sample.point.num_tokens)
    if not _is_on_same_line(small.point, large.point):
        return True
    # What is reserved follows the order of requests, and may be less for more of them.
    spread = RESERVED_SPREAD if small.quantity is Quantity.RESERVED else 0.0
    return all(
        large.measured[name]
        >= small.measured[name] * (1 - spread)
        - max(tolerance(small.measured[name]), small.doubt(name))
        for name in small.parts
        if name in large.measured
    )


def _is_on_same_line(small: MeasuredPoint, large: MeasuredPoint) -> bool:
    """Return whether two points differ only by more tokens.

    ``large`` has more tokens than ``small`` and nothing that could make it need less.
    """
    more = small.num_tokens < large.num_tokens and small.num_layers == large.num_layers
    return more and large.reaches(small)
