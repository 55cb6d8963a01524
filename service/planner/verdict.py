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
    if serving is not None and serving.smallest_bytes is not None:
        return _judge_pool(serving, serving.smallest_bytes)
    left = device.usable_bytes - estimate.device_bytes
    return Judgement(verdict=_verdict(estimate, device), headroom_bytes=max(left, 0), deficit_bytes=max(-left, 0))


def _verdict(estimate: Estimate, device: Device) -> Verdict:
    host = estimate.host_memory_bytes
    if estimate.device_bytes > device.usable_bytes or (host is not None and estimate.host_bytes_per_node > host):
        return Verdict.DOES_NOT_FIT
    return Verdict.FITS if estimate.device_interval.high <= device.usable_bytes else Verdict.TIGHT


def needed_bytes(estimate: Estimate) -> int:
    """Return what must find room: the device's bytes, or of an engine that fills its budget what it cannot do without."""
    serving = estimate.serving
    if serving is not None and serving.smallest_bytes is not None:
        return max(serving.required_bytes, serving.smallest_bytes)
    return estimate.device_bytes


def missing_bytes(estimate: Estimate, device: Device, *, confident: bool) -> int:
    """Return the bytes missing on a GPU, in an engine's budget or on a node: at the interval's upper end if ``confident``."""
    serving = estimate.serving
    if serving is not None and serving.smallest_bytes is not None:
        needs = serving.required_high_bytes if confident and serving.required_high_bytes is not None else serving.required_bytes
        return max(needs - serving.budget_bytes, serving.smallest_bytes - serving.budget_bytes, 0)
    needs = estimate.device_interval.high if confident else estimate.device_bytes
    host = estimate.host_memory_bytes
    on_host = 0 if host is None else estimate.host_bytes_per_node - host
    return max(needs - device.usable_bytes, on_host, 0)


def _judge_pool(serving: Serving, smallest_bytes: int) -> Judgement:
    """Hold what is required against the budget; a pool that holds no sequence of the longest length does not start."""
    left = serving.budget_bytes - max(serving.required_bytes, smallest_bytes)
    high = serving.required_high_bytes if serving.required_high_bytes is not None else serving.required_bytes
    if left < 0:
        return Judgement(verdict=Verdict.DOES_NOT_FIT, headroom_bytes=0, deficit_bytes=-left)
    verdict = Verdict.FITS if high <= serving.budget_bytes else Verdict.TIGHT
    return Judgement(verdict=verdict, headroom_bytes=left, deficit_bytes=0)
