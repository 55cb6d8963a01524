"""The fastest that anything learnt makes a question on a GPU.

Searches leave out what is too slow before they ask what was learnt of it.
"""

from collections.abc import Iterable, Iterator
from math import exp

from service.calibration.apply import MIN_LOG_RATIO, ONLY_PART
from service.calibration.curve import Curve
from service.calibration.derive import Calibration
from service.calibration.pool import Member, Pool


def find_time_floor(members: Iterable[Member], pools: Iterable[Pool], gpu: str) -> float:
    """Return the least time on a GPU over its analytic one.

    It is at most 1. A machine's speeds are shrunk from what its questions tell towards nothing, so
    that none is beyond the farthest of these.
    """
    logs = [
        *(log for member in members if member.gpu in {gpu, None} for log in _iter_logs(member)),
        *(
            pool.shares.get(ONLY_PART, 0.0)
            for pool in pools
            if pool.group.quantity.is_ratio and _is_of_gpu(pool.group.environment, gpu)
        ),
    ]
    return exp(min([0.0, *logs]))


def _iter_logs(member: Member) -> Iterator[float]:
    calibration = member.calibration
    yield from (mean.value for mean in calibration.speeds.values())
    if calibration.quantity.is_ratio:
        yield from (exact.residuals.get(ONLY_PART, 0.0) for exact in calibration.exact)
        yield _find_least_log(calibration)


def _find_least_log(calibration: Calibration) -> float:
    """Return the logarithm of a key's least ratio where nobody measured."""
    curve = calibration.curves.get(ONLY_PART, Curve())
    is_flat = not (curve.per_token or curve.per_layer or curve.per_layer_token)
    return calibration.shares.get(ONLY_PART, 0.0) + curve.fixed if is_flat else MIN_LOG_RATIO


def _is_of_gpu(environment: str, gpu: str) -> bool:
    """Return whether an environment's name is of a GPU, or of none."""
    return environment.startswith((f"{gpu}, ", "torch "))
