"""Each measured size, answered by what two others of its curve taught."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

from service.calibration.derive import calibrate, compute_corrections
from service.calibration.evidence import Evidence
from tests.accuracy.statistics import percentile

NUM_PROBES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """One measured peak, its analytic answer and the one that rests on the probes; errors are
    answer / measured - 1.
    """

    curve: str
    case: str
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Absolute relative errors, but for ``bias``."""

    median: float
    p95: float
    max: float
    bias: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Errors of held-out peaks before calibration and after it."""

    num_curves: int
    num_held: int
    before: Errors
    after: Errors


def held_out(curves: Mapping[str, Sequence[Evidence]]) -> list[HeldOut]:
    """Return every size of every curve, answered by each pair of others of which one has more
    tokens, as probes are planned.
    """
    found = []
    for name, samples in curves.items():
        for held in samples:
            others = [sample for sample in samples if sample.point != held.point]
            found += [
                _answered(name, held, pair)
                for pair in combinations(others, NUM_PROBES)
                if _spread(pair)
            ]
    return found


def _spread(pair: Sequence[Evidence]) -> bool:
    first, second = (sample.point.num_tokens for sample in pair)
    return first != second


def compare(held: Sequence[HeldOut]) -> Comparison:
    """Return the errors of at least one held-out size."""
    return Comparison(
        num_curves=len({one.curve for one in held}),
        num_held=len(held),
        before=_errors([one.before for one in held]),
        after=_errors([one.after for one in held]),
    )


def _answered(name: str, held: Evidence, probes: Sequence[Evidence]) -> HeldOut:
    learnt = calibrate(probes)
    assert learnt is not None, "what the trace probe reads is fit to teach"
    added = compute_corrections(learnt.curves, learnt.shares, learnt.exact, held)
    return HeldOut(
        curve=name,
        case=held.measurement,
        before=held.peak() / held.measured_peak - 1,
        after=held.peak(added) / held.measured_peak - 1,
    )


def _errors(signed: Sequence[float]) -> Errors:
    sizes = sorted(map(abs, signed))
    return Errors(
        median=median(sizes), p95=percentile(sizes, 95), max=sizes[-1], bias=fmean(signed)
    )
