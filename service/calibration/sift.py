"""What may teach and what may not, with the reason; the order in which measurements came does not matter."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.calibration.evidence import Evidence, MeasuredPoint, tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A measurement that teaches nothing, and why."""

    measurement: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sifted:
    """Measurements that teach a curve, those that only bound it, and those that teach nothing."""

    accepted: tuple[Evidence, ...] = ()
    bounding: tuple[Evidence, ...] = ()
    rejected: tuple[Rejected, ...] = ()


def sift(evidence: Sequence[Evidence]) -> Sifted:
    """Split evidence of one key and quantity.

    Memory cannot fall while tokens grow, and one point has one need. Of measurements that say otherwise, the one that
    contradicts most others goes; of two that contradict each other the larger size, which should have needed more, and of
    one size the one that is further from the analytic answer.
    """
    ordered = sorted(evidence, key=lambda sample: (sample.measurement, sample.beside, sample.point.num_tokens))
    rejected = [Rejected(measurement=sample.measurement, reason=reason) for sample in ordered if (reason := _unfit(sample))]
    fit = [sample for sample in ordered if not _unfit(sample)]
    curve = [sample for sample in fit if not sample.is_one_sided]
    while conflicts := _conflicts(curve):
        index = max(
            conflicts,
            key=lambda at: (len(conflicts[at]), curve[at].point.num_tokens, curve[at].distance, curve[at].measurement),
        )
        rejected.append(_contradictory(curve[index], [curve[other] for other in sorted(conflicts[index])]))
        curve = [sample for at, sample in enumerate(curve) if at != index]
    # What a measurement ran beside its question is worth no more than what it answered.
    believed = {sample.measurement for sample in curve if not sample.beside}
    return Sifted(
        accepted=tuple(sample for sample in curve if sample.measurement in believed),
        bounding=tuple(sample for sample in fit if sample.is_one_sided),
        rejected=tuple(rejected),
    )


def _unfit(sample: Evidence) -> str | None:
    if not sample.parts:
        return "nothing was measured that the estimator has a figure for"
    if not sample.transferable:
        return "the kernels were not those that CUDA would choose"
    return None


def _contradictory(worst: Evidence, against: Sequence[Evidence]) -> Rejected:
    same = [one.measurement for one in against if worst.contradicts(one)]
    other = [one.measurement for one in against if one.measurement not in same]
    reasons = []
    if same:
        reasons.append(f"the same point was measured otherwise: it contradicts {', '.join(same)}")
    if other:
        reasons.append(f"memory would fall while the batch grows: it contradicts {', '.join(other)}")
    return Rejected(measurement=worst.measurement, reason="; ".join(reasons))


def _conflicts(curve: Sequence[Evidence]) -> dict[int, set[int]]:
    """Return which samples contradict which, by their places."""
    found: dict[int, set[int]] = {}
    for index, one in enumerate(curve):
        for place, other in enumerate(curve[index + 1 :], start=index + 1):
            if one.contradicts(other) or not _grows(one, other):
                found.setdefault(index, set()).add(place)
                found.setdefault(place, set()).add(index)
    return found


def _grows(one: Evidence, other: Evidence) -> bool:
    if one.quantity.is_ratio:
        return True
    small, large = sorted((one, other), key=lambda sample: sample.point.num_tokens)
    if not _same_line(small.point, large.point):
        return True
    return all(
        large.measured[name] >= small.measured[name] - max(tolerance(small.measured[name]), small.doubt(name))
        for name in small.parts
        if name in large.measured
    )


def _same_line(small: MeasuredPoint, large: MeasuredPoint) -> bool:
    """Return whether ``large`` differs from ``small`` by more tokens and by nothing that could make it need less."""
    more = small.num_tokens < large.num_tokens and small.num_layers == large.num_layers
    return more and large.reaches(small)
