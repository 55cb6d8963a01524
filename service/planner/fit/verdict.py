"""Whether an estimate fits on a GPU."""

from dataclasses import dataclass
from enum import StrEnum

from service.estimator.values.device import Device
from service.estimator.values.result import Estimate, Serving


class Verdict(StrEnum):
    """``fits``: nothing is missing at the upper end of the interval; ``tight``: nothing is at the point."""

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does_not_fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict, and how many bytes are left or missing on the device at the point estimate; neither is ever negative."""

    verdict: Verdict
    headroom_bytes: int
    deficit_bytes: int


def judge(estimate: Estimate, device: Device) -> Judgement:
    """Return whether nothing is missing, at the point and at the interval's upper end, and what the device has left."""
    left = device.usable_bytes - estimate.device_bytes
    return Judgement(verdict=_verdict(estimate, device), headroom_bytes=max(left, 0), deficit_bytes=max(-left, 0))


def _verdict(estimate: Estimate, device: Device) -> Verdict:
    if missing_bytes(estimate, device, confident=False):
        return Verdict.DOES_NOT_FIT
    return Verdict.TIGHT if missing_bytes(estimate, device, confident=True) else Verdict.FITS


def needed_bytes(estimate: Estimate) -> int:
    """Return what must find room: the device's bytes, or of an engine that fills its budget what it cannot do without."""
    serving = estimate.serving
    if serving is not None and serving.smallest_bytes is not None:
        return max(serving.required_bytes, serving.smallest_bytes)
    return estimate.device_bytes


def missing_bytes(estimate: Estimate, device: Device, *, confident: bool) -> int:
    """Return the bytes missing on a GPU, in a budget, or on a node: at the interval's upper end if ``confident``.

    A pool fills the budget whatever is asked, and yet graphs and contexts beside it must find room on the device.
    """
    on_device = (estimate.device_interval.high if confident else estimate.device_bytes) - device.usable_bytes
    host = estimate.host_memory_bytes
    on_host = 0 if host is None else estimate.host_bytes_per_node - host
    nvme = estimate.nvme_bytes
    on_nvme = 0 if nvme is None else estimate.nvme_bytes_per_node - nvme
    return max(on_device, on_host, on_nvme, _missing_in_budget(estimate.serving, confident=confident), 0)


def _missing_in_budget(serving: Serving | None, *, confident: bool) -> int:
    """Return what a pool lacks for what is required of it, and for one sequence of the longest length, to start at all."""
    if serving is None or serving.smallest_bytes is None:
        return 0
    needs = serving.required_high_bytes if confident and serving.required_high_bytes is not None else serving.required_bytes
    return max(needs, serving.smallest_bytes) - serving.budget_bytes
