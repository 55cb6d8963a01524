"""From measurements of one key to additive corrections that shrink towards what holds for keys like it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.calibration.curve import Curve, Sample, fit, mean_of
from service.calibration.evidence import EXACT_SHARE, Evidence, MeasuredPoint, Quantity
from service.calibration.shrinkage import Mean
from service.calibration.sift import Rejected, sift


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """One point that was measured itself, and what the analytic answer lacks there, part by part.

    ``error`` holds all of its measurements; ``claimed`` says that nobody but who brought them vouches for what they ran.
    """

    point: MeasuredPoint
    residuals: Mapping[str, float]
    error: float = EXACT_SHARE
    claimed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a run that ended early, or took all that there was, says of its point."""

    measurement: str
    point: MeasuredPoint
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """One measurement beside what its peak would have been answered without it, as measured / answer - 1.

    ``before`` any calibration, with what ``alike`` keys teach, and ``after`` all others of its own key taught as well;
    ``alone`` says that there were none.
    """

    measurement: str
    before: float
    alike: float
    after: float
    answer: int
    """The answer of ``after``, in bytes or nanoseconds."""
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """What holds for keys like this one: ``shares`` of the analytic answer by part, and the variance of keys around them."""

    shares: Mapping[str, float] = field(default_factory=dict)
    between: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What the evidence of one key teaches; no ``curves`` and no ``shares`` mean that the analytic answer stays as it is.

    ``shares`` come from keys like this one, and ``curves`` are what the key's own measurements add. ``relative_error`` bounds
    what remains at other points, as a share of the peak. ``means`` are the key's residuals as shares, for keys like it.
    """

    quantity: Quantity = Quantity.ALLOCATED
    curves: Mapping[str, Curve]
    shares: Mapping[str, float] = field(default_factory=dict)
    relative_error: float
    evidence: tuple[str, ...]
    exact: tuple[Exact, ...] = ()
    at_least: tuple[Bound, ...] = ()
    at_most: tuple[Bound, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    means: Mapping[str, Mean] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()
    num_claimed: int = 0
    """How many of the evidence were brought from elsewhere."""


def calibrate(evidence: Sequence[Evidence], parent: Parent | None = None) -> Calibration | None:
    """Return what measurements of one key and quantity teach; ``None`` when none of them may teach anything."""
    sifted, above = sift(evidence), parent or Parent()
    if not sifted.accepted and not sifted.bounding:
        return None
    accepted = sifted.accepted
    # How far measurements are from answers is counted by measurements: the sizes of one have all but their size in common.
    counted = tuple(sample for sample in accepted if not sample.beside)
    left_out = tuple(_left_out(held, _of_others(held, accepted), above) for held in counted)
    return Calibration(
        quantity=evidence[0].quantity,
        curves=_curves(accepted, above),
        shares={name: share for name, share in above.shares.items() if share},
        relative_error=_remaining_error(accepted, above),
        evidence=tuple(sample.measurement for sample in (*counted, *sifted.bounding)),
        exact=_exact(accepted),
        at_least=tuple(_bound(sample) for sample in sifted.bounding if sample.out_of_memory),
        at_most=tuple(_bound(sample) for sample in sifted.bounding if not sample.out_of_memory),
        rejected=sifted.rejected,
        means={name: mean_of([_share(one, name) for one in samples]) for name, samples in _by_part(counted).items()},
        left_out=left_out,
        num_claimed=sum(sample.claimed for sample in (*counted, *sifted.bounding)),
    )


def correction_at(
    curves: Mapping[str, Curve], shares: Mapping[str, float], exact: Sequence[Exact], sample: Evidence
) -> dict[str, float]:
    """Return the correction of every part of a sample's point, in the residual's unit."""
    for known in exact:
        if known.point == sample.point and not sample.extrapolated:
            return dict(known.residuals)
    return {
        name: shares.get(name, 0.0) * sample.scale(name) + (curves[name].at(sample.point) if name in curves else 0.0)
        for name in sample.parts
    }


def _curves(accepted: Sequence[Evidence], above: Parent) -> dict[str, Curve]:
    found = {}
    for name, with_part in _by_part(accepted).items():
        scale = sum(sample.scale(name) for sample in with_part) / len(with_part)
        share = above.shares.get(name, 0.0)
        samples = [
            Sample(point=one.point, residual=one.residual(name) - share * one.scale(name), doubt=one.doubt(name))
            for one in with_part
        ]
        curve = fit(samples, between=above.between.get(name, 0.0) * scale**2)
        if curve != Curve():
            found[name] = curve
    return found


def _by_part(accepted: Sequence[Evidence]) -> dict[str, list[Evidence]]:
    """Return the samples of every part: what was read elsewhere may know of its peak alone."""
    found: dict[str, list[Evidence]] = {}
    for sample in accepted:
        for name in sample.parts:
            found.setdefault(name, []).append(sample)
    return found


def _share(sample: Evidence, name: str) -> Sample:
    return Sample(point=sample.point, residual=sample.share(name), doubt=sample.doubt(name) / sample.scale(name))


def _of_others(held: Evidence, accepted: Sequence[Evidence]) -> list[Evidence]:
    return [sample for sample in accepted if sample.measurement != held.measurement]


def _left_out(held: Evidence, others: Sequence[Evidence], above: Parent) -> LeftOut:
    """Hold one measurement against what the others teach."""
    alike = held.peak(correction_at({}, above.shares, (), held))
    answer = held.peak(correction_at(_curves(others, above), above.shares, _exact(others), held))
    return LeftOut(
        measurement=held.measurement,
        before=held.measured_peak / held.peak() - 1,
        alike=held.measured_peak / max(1.0, alike) - 1,
        after=held.measured_peak / max(1.0, answer) - 1,
        answer=round(answer),
        alone=not others,
    )


def _remaining_error(accepted: Sequence[Evidence], above: Parent) -> float:
    """Return the error of the peak that other points must expect, at least the tolerance.

    From one size a correction may be wrong by its whole size elsewhere; of several, each is held against the others.
    """
    doubts = [EXACT_SHARE, *(one.spread for one in accepted if one.claimed)]
    if len(accepted) == 1:
        only = accepted[0]
        whole = 1.0 if only.quantity.is_ratio else float(max(1, only.measured_peak))
        doubts += [abs(only.residual(name)) / whole for name in only.parts]
    for held in accepted if len(accepted) > 1 else ():
        others = [sample for sample in accepted if sample is not held]
        doubts.append(abs(_left_out(held, others, above).after))
    return max(doubts)


def _exact(accepted: Sequence[Evidence]) -> tuple[Exact, ...]:
    """Return the points that were measured themselves; where one was measured again, with the mean of its residuals."""
    by_point: dict[MeasuredPoint, list[Evidence]] = {}
    for sample in accepted:
        if not sample.extrapolated:
            by_point.setdefault(sample.point, []).append(sample)
    return tuple(_exact_of(point, samples) for point, samples in by_point.items())


def _exact_of(point: MeasuredPoint, samples: Sequence[Evidence]) -> Exact:
    """Return a point with an error that holds each of its measurements, and what one that is only claimed may be off."""
    residuals = _residuals(samples)
    claimed = all(sample.claimed for sample in samples)
    errors = [EXACT_SHARE]
    for sample in samples:
        answer = max(1.0, sample.peak(residuals))
        # One more than the distance: bytes are whole, and the interval is rounded.
        errors.append((abs(sample.measured_peak - answer) + 1) / answer)
    if claimed:
        errors.append(max(sample.spread for sample in samples))
    return Exact(point=point, residuals=residuals, error=max(errors), claimed=claimed)


def _residuals(samples: Sequence[Evidence]) -> dict[str, float]:
    means = {
        name: (sum(one.residual(name) for one in known) / len(known), max(one.doubt(name) for one in known))
        for name, known in _by_part(samples).items()
    }
    # A reserved reading may differ the next time, yet it is the best that is known of its own point.
    as_is = samples[0].quantity is Quantity.RESERVED
    return {name: mean for name, (mean, doubt) in means.items() if as_is or abs(mean) > doubt}


def _bound(sample: Evidence) -> Bound:
    return Bound(measurement=sample.measurement, point=sample.point, bytes=sample.measured_peak)
