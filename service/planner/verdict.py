"""Whether an estimate fits on a GPU."""

from dataclasses import dataclass
from enum import StrEnum

from service.estimator.device import Device
from service.estimator.result import Estimate, Serving


class Verdict(StrEnum):
    """``fits``: the upper end of the device interval is usable; ``tight``: only the point is."""

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does_not_fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict, and how many bytes are left or missing at the point estimate; neither is ever negative."""

    verdict: Verdict
    headroom_bytes: int
    deficit_bytes: int


def judge(estimate: Estimate, device: Device) -> Judgement:
    """Hold the device bytes of an estimate against what a process can allocate; what a pool must hold against its budget."""
    serving = estimate.serving
    if serving is not None and serving.max_concurrency is not None:
        return _judge_pool(serving, serving.max_concurrency)
    left = device.usable_bytes - estimate.device_bytes
    return Judgement(verdict=_verdict(estimate, device), headroom_bytes=max(left, 0), deficit_bytes=max(-left, 0))


def _verdict(estimate: Estimate, device: Device) -> Verdict:
    if estimate.device_bytes > device.usable_bytes:
        return Verdict.DOES_NOT_FIT
    return Verdict.FITS if estimate.device_interval.high <= device.usable_bytes else Verdict.TIGHT


def _judge_pool(serving: Serving, max_concurrency: float) -> Judgement:
    """Hold what is required against the budget; a pool that holds no sequence of the longest length does not start."""
    missing = _missing_for_one(serving, max_concurrency)
    left = serving.budget_bytes - max(serving.required_bytes, serving.budget_bytes + missing)
    high = serving.required_high_bytes if serving.required_high_bytes is not None else serving.required_bytes
    if left < 0:
        return Judgement(verdict=Verdict.DOES_NOT_FIT, headroom_bytes=0, deficit_bytes=-left)
    verdict = Verdict.FITS if high <= serving.budget_bytes else Verdict.TIGHT
    return Judgement(verdict=verdict, headroom_bytes=serving.budget_bytes - serving.required_bytes, deficit_bytes=0)


def _missing_for_one(serving: Serving, max_concurrency: float) -> int:
    """Return the bytes by which the pool is too small for one sequence of the longest length; nothing when it holds one."""
    pool = serving.kv_pool_bytes or 0
    if max_concurrency >= 1:
        return 0
    return round(pool / max_concurrency) - pool if max_concurrency > 0 else serving.kv_bytes_per_token
