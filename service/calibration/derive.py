"""Additive corrections derived from the measurements of one key.

They shrink towards what holds for similar keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.calibration.curve import Curve, Sample, compute_mean, fit
from service.calibration.evidence import (
    EXACT_SHARE,
    RESERVED_SPREAD,
    SEGMENT_STEP_BYTES,
    Evidence,
    MeasuredPoint,
    Quantity,
)
from service.calibration.shrinkage import Mean
from service.calibration.sift import RejectedMeasurement, filter_evidence
from service.calibration.speeds import average_speeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """A point that was measured itself, with its residuals by part.

    ``error`` holds all of its measurements; ``claimed`` says that nobody but who brought them
    vouches for what they ran.
    """

    point: MeasuredPoint
    residuals: Mapping[str, float]
    error: float = EXACT_SHARE
    claimed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A one-sided bound on the bytes of a point.

    It comes from a run that ended early, or that took all the memory there was.
    """

    measurement: str
    point: MeasuredPoint
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveOneOut:
    """Errors of the answers to one measurement without its own evidence.

    Errors are measured / answer - 1: ``before`` any calibration, with what ``alike`` keys teach,
    and ``after`` all others of its own key taught as well; ``alone`` says that there were none.
    """

    measurement: str
    before: float
    alike: float
    after: float
    answer: int
    """The answer of ``after``, in bytes or nanoseconds."""
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Prior of a key from similar keys.

    ``shares`` of the analytic answer by part, and the variance ``between`` keys around them.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    between: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Corrections learnt from the evidence of one key.

    No ``curves`` and no ``shares`` mean that the analytic answer stays as it is.

    ``shares`` come from keys like this one, and ``curves`` are what the key's own measurements add.
    ``relative_error`` bounds what remains at other points, as a share of the peak. ``means`` are
    the key's residuals as shares, for keys like it.
    """

    quantity: Quantity = Quantity.ALLOCATED
    curves: Mapping[str, Curve]
    shares: Mapping[str, float] = field(default_factory=dict)
    relative_error: float
    evidence: tuple[str, ...]
    exact: tuple[Exact, ...] = ()
    at_least: tuple[Bound, ...] = ()
    at_most: tuple[Bound, ...] = ()
    rejected: tuple[RejectedMeasurement, ...] = ()
    means: Mapping[str, Mean] = field(default_factory=dict)
    left_out: tuple[LeaveOneOut, ...] = ()
    num_claimed: int = 0
    """Number of measurements in the evidence that were imported from elsewhere."""
    speeds: Mapping[str, Mean] = field(default_factory=dict)
    """Of a time: what its measurements tell of their machine, by ``host`` and ``gpu``."""


def calibrate(evidence: Sequence[Evidence], prior: Prior | None = None) -> Calibration | None:
    """Derive a calibration from measurements of one key and quantity.

    Returns ``None`` when none of them may teach anything.
    """
    filtered, effective_prior = filter_evidence(evidence), prior or Prior()
    if not filtered.accepted and not filtered.bounding:
        return None
    accepted = filtered.accepted
    # How far measurements are from answers is counted by measurements: the sizes of one have all
    # but their size in common.
    counted = tuple(sample for sample in accepted if not sample.is_extra_size)
    left_out = tuple(
        _leave_one_out(
            left_out_sample, _exclude_measurement(left_out_sample, accepted), effective_prior
        )
        for left_out_sample in counted
    )
    return Calibration(
        quantity=evidence[0].quantity,
        curves=_fit_curves(accepted, effective_prior),
        shares={name: share for name, share in effective_prior.shares.items() if share},
        relative_error=_estimate_remaining_error(accepted, effective_prior),
        evidence=tuple(sample.measurement for sample in (*counted, *filtered.bounding)),
        exact=_collect_exact_points(accepted),
        at_least=tuple(_make_bound(sample) for sample in filtered.bounding if sample.out_of_memory),
        at_most=tuple(
            _make_bound(sample) for sample in filtered.bounding if not sample.out_of_memory
        ),
        rejected=filtered.rejected,
        means={
            name: compute_mean([_make_share_sample(part_sample, name) for part_sample in samples])
            for name, samples in _group_by_part(counted).items()
        },
        left_out=left_out,
        num_claimed=sum(sample.claimed for sample in (*counted, *filtered.bounding)),
        speeds=average_speeds(counted),
    )


def compute_corrections(
    curves: Mapping[str, Curve],
    shares: Mapping[str, float],
    exact: Sequence[Exact],
    sample: Evidence,
) -> dict[str, float]:
    """Return the correction of every part at a sample's point.

    Corrections are in the residual's unit.
    """
    for measured_point in exact:
        if measured_point.point == sample.point and not sample.extrapolated:
            return dict(measured_point.residuals)
    return {
        name: shares.get(name, 0.0) * sample.scale(name)
        + (curves[name].at(sample.point) if name in curves else 0.0)
        for name in sample.parts
    }


def _fit_curves(accepted: Sequence[Evidence], prior: Prior) -> dict[str, Curve]:
    curves = {}
    for name, with_part in _group_by_part(accepted).items():
        scale = sum(sample.scale(name) for sample in with_part) / len(with_part)
        share = prior.shares.get(name, 0.0)
        samples = [
            Sample(
                point=part_sample.point,
                residual=part_sample.residual(name) - share * part_sample.scale(name),
                doubt=part_sample.doubt(name),
            )
            for part_sample in with_part
        ]
        curve = fit(samples, between=prior.between.get(name, 0.0) * scale**2)
        if curve != Curve():
            curves[name] = curve
    return curves


def _group_by_part(accepted: Sequence[Evidence]) -> dict[str, list[Evidence]]:
    """Group samples by part.

    What was read elsewhere may know of its peak alone.
    """
    samples_by_part: dict[str, list[Evidence]] = {}
    for sample in accepted:
        for name in sample.parts:
            samples_by_part.setdefault(name, []).append(sample)
    return samples_by_part


def _make_share_sample(sample: Evidence, name: str) -> Sample:
    return Sample(
        point=sample.point,
        residual=sample.share(name),
        doubt=sample.doubt(name) / sample.scale(name),
    )


def _exclude_measurement(left_out_sample: Evidence, accepted: Sequence[Evidence]) -> list[Evidence]:
    return [sample for sample in accepted if sample.measurement != left_out_sample.measurement]


def _leave_one_out(
    left_out_sample: Evidence, other_samples: Sequence[Evidence], prior: Prior
) -> LeaveOneOut:
    """Compare one measurement with the answer that the others give."""
    alike = left_out_sample.peak(compute_corrections({}, prior.shares, (), left_out_sample))
    answer = left_out_sample.peak(
        compute_corrections(
            _fit_curves(other_samples, prior),
            prior.shares,
            _collect_exact_points(other_samples),
            left_out_sample,
        ),
    )
    return LeaveOneOut(
        measurement=left_out_sample.measurement,
        before=left_out_sample.measured_peak / left_out_sample.peak() - 1,
        alike=left_out_sample.measured_peak / max(1.0, alike) - 1,
        after=left_out_sample.measured_peak / max(1.0, answer) - 1,
        answer=round(answer),
        alone=not other_samples,
    )


def _estimate_remaining_error(accepted: Sequence[Evidence], prior: Prior) -> float:
    """Return the peak error to expect at other points.

    It is at least the tolerance. From one size a correction may be wrong by its whole size
    elsewhere; of several, each is compared with the others.
    """
    doubts = [
        EXACT_SHARE,
        *(claimed_sample.spread for claimed_sample in accepted if claimed_sample.claimed),
    ]
    if len(accepted) == 1:
        only = accepted[0]
        reference = 1.0 if only.quantity.is_ratio else float(max(1, only.measured_peak))
        doubts += [abs(only.residual(name)) / reference for name in only.parts]
    for left_out_sample in accepted if len(accepted) > 1 else ():
        other_samples = [sample for sample in accepted if sample is not left_out_sample]
        doubts.append(abs(_leave_one_out(left_out_sample, other_samples, prior).after))
    return max(doubts)


def _collect_exact_points(accepted: Sequence[Evidence]) -> tuple[Exact, ...]:
    """Return the points that were measured themselves.

    A point that was measured again has the mean of its residuals.
    """
    by_point: dict[MeasuredPoint, list[Evidence]] = {}
    for sample in accepted:
        if not sample.extrapolated:
            by_point.setdefault(sample.point, []).append(sample)
    return tuple(_build_exact_point(point, samples) for point, samples in by_point.items())


def _build_exact_point(point: MeasuredPoint, samples: Sequence[Evidence]) -> Exact:
    """Return a measured point with an error that covers its measurements.

    The error also covers what a measurement that is only claimed may be off.
    """
    residuals = _compute_residuals(samples)
    claimed = all(sample.claimed for sample in samples)
    errors = [EXACT_SHARE]
    for sample in samples:
        answer = max(1.0, sample.peak(residuals))
        # One more than the distance: bytes are whole, and the interval is rounded.
        errors.append((abs(sample.measured_peak - answer) + 1) / answer)
    if claimed:
        errors.append(max(sample.spread for sample in samples))
    if samples[0].quantity is Quantity.RESERVED:
        answer = max(1.0, samples[0].peak(residuals))
        errors.append(RESERVED_SPREAD if claimed else SEGMENT_STEP_BYTES / answer)
    return Exact(point=point, residuals=residuals, error=max(errors), claimed=claimed)


def _compute_residuals(samples: Sequence[Evidence]) -> dict[str, float]:
    means = {
        name: (
            sum(sample.residual(name) for sample in part_samples) / len(part_samples),
            max(sample.doubt(name) for sample in part_samples),
        )
        for name, part_samples in _group_by_part(samples).items()
    }
    # A reserved reading or a time may differ the next time, yet it is the best that is known of its
    # own point.
    as_is = samples[0].quantity is Quantity.RESERVED or samples[0].quantity.is_ratio
    return {name: mean for name, (mean, doubt) in means.items() if as_is or abs(mean) > doubt}


def _make_bound(sample: Evidence) -> Bound:
    return Bound(measurement=sample.measurement, point=sample.point, bytes=sample.measured_peak)
