"""Speeds of machines, as measured times tell them.

Its host launches every model's kernels and its GPU runs them, so that one question's time says
something of all others there. Each time is explained by one side
(``service/estimator/speed/learning.py``); residuals are logarithms of that side's ratio.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean, variance
from types import MappingProxyType

from service.calibration.evidence import Evidence
from service.calibration.shrinkage import Mean
from service.estimator.values.result import Bound

NOISE: Mapping[Bound, float] = MappingProxyType({Bound.HOST: 0.135, Bound.GPU: 0.048})
"""Standard deviations of what one run tells: 79 recorded runs of an H100 and an H200 at full depth,
each in a process of its own, about the rates of their machines (``tests/accuracy/times``).
"""


def average_speeds(evidence: Sequence[Evidence]) -> dict[str, Mean]:
    """Return the mean of each side that times tell of.

    It is by the side's name. What somebody only claims tells nothing of a machine.
    """
    by_side: dict[str, list[Evidence]] = {}
    for sample in evidence:
        for side in () if sample.claimed else sample.speeds:
            by_side.setdefault(side, []).append(sample)
    return {side: _average(samples, side) for side, samples in by_side.items()}


def _average(samples: Sequence[Evidence], side: str) -> Mean:
    values = [sample.speeds[side] for sample in samples]
    own = fmean(max(NOISE[Bound(side)], sample.noise) ** 2 for sample in samples)
    # Runs that happen to agree are still known no better than each of them is.
    spread = max(own, variance(values)) if len(values) > 1 else own
    return Mean(value=fmean(values), variance=spread / len(values), count=len(values))
