"""From measurements of one key to additive corrections that shrink towards the analytic answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.estimator.corrections import InstantCorrection

ROUNDING_BYTES = 512
"""The caching allocator rounds every block up to this (pytorch c10/cuda/CUDACachingAllocator.cpp)."""
EXACT_SHARE = 0.001
"""An analytic answer this near is exact: what is left is rounding, step counters and generator states."""

Curve = tuple[tuple[int, int], ...]
"""Residuals as (tokens, bytes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint:
    """Where on the curve a measurement lies; ``num_tokens`` are those of one micro-batch (serving: with their output)."""

    num_layers: int
    micro_batch_size: int
    sequence_length: int
    output_tokens: int = 0
    num_gpus: int = 1

    @property
    def num_tokens(self) -> int:
        """Tokens of one micro-batch."""
        return self.micro_batch_size * (self.sequence_length + self.output_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One measurement beside the analytic answer to the same question, in allocated bytes by instant.

    ``transferable``: kernels were those that CUDA would choose. ``extrapolated``: slices were run, not the model itself.
    """

    measurement: str
    point: MeasuredPoint
    measured: Mapping[str, int]
    predicted: Mapping[str, int]
    transferable: bool = True
    extrapolated: bool = False
    out_of_memory: bool = False

    def residual(self, instant: str) -> int:
        """Return measured minus predicted bytes."""
        return self.measured[instant] - self.predicted[instant]

    @property
    def instants(self) -> tuple[str, ...]:
        """Instants that were both measured and predicted."""
        return tuple(name for name in self.measured if name in self.predicted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """One point that was measured itself, and what the analytic answer lacks there."""

    point: MeasuredPoint
    residuals: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What the evidence of one key teaches; empty ``instants`` mean that the analytic answer stays as it is.

    ``relative_error`` bounds what remains at other points of the curve, as a share of the allocated bytes.
    """

    instants: Mapping[str, InstantCorrection]
    relative_error: float
    evidence: tuple[str, ...]
    exact: tuple[Exact, ...] = ()
    rejected: tuple[str, ...] = ()


def calibrate(evidence: Sequence[Evidence]) -> Calibration | None:
    """Return what measurements of one key teach, oldest first; ``None`` when none of them may teach anything."""
    accepted, rejected = _sift(evidence)
    if not accepted:
        return None
    instants = {name: correction for name in _shared_instants(accepted) if (correction := _correct(accepted, name))}
    return Calibration(
        instants=instants,
        relative_error=_remaining_error(accepted, instants),
        evidence=tuple(sample.measurement for sample in accepted),
        exact=tuple(_exact(sample) for sample in accepted if not sample.extrapolated),
        rejected=tuple(sample.measurement for sample in rejected),
    )


def tolerance(measured_bytes: int) -> int:
    """Return the bytes below which a difference means nothing."""
    return max(ROUNDING_BYTES, round(measured_bytes * EXACT_SHARE))


def _sift(evidence: Sequence[Evidence]) -> tuple[list[Evidence], list[Evidence]]:
    """Split what may teach from what may not: other kernels, out of memory, or memory that falls while tokens grow."""
    accepted: list[Evidence] = []
    rejected: list[Evidence] = []
    for sample in evidence:
        usable = sample.transferable and not sample.out_of_memory and sample.instants
        fits = usable and all(_grows(sample, other) for other in accepted)
        (accepted if fits else rejected).append(sample)
    return accepted, rejected


def _grows(one: Evidence, other: Evidence) -> bool:
    small, large = sorted((one, other), key=lambda sample: sample.point.num_tokens)
    if not _same_line(small.point, large.point):
        return True
    return all(
        large.measured[name] >= small.measured[name] - tolerance(small.measured[name])
        for name in small.instants
        if name in large.measured
    )


def _same_line(small: MeasuredPoint, large: MeasuredPoint) -> bool:
    """Return whether ``large`` differs from ``small`` by more tokens and by nothing that could make it need less."""
    same = (small.num_layers, small.num_gpus) == (large.num_layers, large.num_gpus)
    return same and small.micro_batch_size <= large.micro_batch_size and small.sequence_length <= large.sequence_length


def _shared_instants(accepted: Sequence[Evidence]) -> tuple[str, ...]:
    return tuple(name for name in accepted[0].instants if all(name in sample.instants for sample in accepted))


def _correct(accepted: Sequence[Evidence], instant: str) -> InstantCorrection | None:
    """Return the simplest correction that explains the evidence: nothing, an intercept, an intercept and a slope."""
    curve = tuple((sample.point.num_tokens, sample.residual(instant)) for sample in accepted)
    bounds = tuple(tolerance(sample.measured[instant]) for sample in accepted)
    best = InstantCorrection()
    for candidate in (best, _intercept(curve), _line(curve)):
        if candidate is not None and _worst(curve, candidate) < _worst(curve, best):
            best = candidate
        if all(abs(left) <= bound for left, bound in zip(_left(curve, best), bounds, strict=True)):
            break
    return None if best == InstantCorrection() else best


def _left(curve: Curve, correction: InstantCorrection) -> tuple[int, ...]:
    return tuple(residual - correction.at(num_tokens) for num_tokens, residual in curve)


def _worst(curve: Curve, correction: InstantCorrection) -> int:
    return max(abs(left) for left in _left(curve, correction))


def _intercept(curve: Curve) -> InstantCorrection:
    """Return the constant with the smallest worst error: the middle between the extremes."""
    residuals = [residual for _, residual in curve]
    return InstantCorrection(fixed_bytes=(min(residuals) + max(residuals)) // 2)


def _line(curve: Curve) -> InstantCorrection | None:
    """Return the least-squares line, or nothing when all points have equal tokens."""
    count = len(curve)
    mean_tokens = sum(tokens for tokens, _ in curve) / count
    mean_bytes = sum(residual for _, residual in curve) / count
    spread = sum((tokens - mean_tokens) ** 2 for tokens, _ in curve)
    if not spread:
        return None
    slope = sum((tokens - mean_tokens) * (residual - mean_bytes) for tokens, residual in curve) / spread
    return InstantCorrection(fixed_bytes=round(mean_bytes - slope * mean_tokens), bytes_per_token=slope)


def _remaining_error(accepted: Sequence[Evidence], instants: Mapping[str, InstantCorrection]) -> float:
    """Return the error of the peak that other points must expect, at least the tolerance.

    From one measurement a correction may be wrong by its whole size elsewhere; from several, by the worst that they leave.
    """
    shares = [EXACT_SHARE]
    for sample in accepted:
        for name in sample.instants:
            correction = instants.get(name, InstantCorrection())
            left = sample.residual(name) - correction.at(sample.point.num_tokens)
            doubt = sample.residual(name) if len(accepted) == 1 else left
            shares.append(abs(doubt) / max(1, *sample.measured.values()))
    return max(shares)


def _exact(sample: Evidence) -> Exact:
    residuals = {
        name: sample.residual(name) for name in sample.instants if abs(sample.residual(name)) > tolerance(sample.measured[name])
    }
    return Exact(point=sample.point, residuals=residuals)
