"""Whether an estimate fits on a GPU."""

from dataclasses import dataclass
from enum import StrEnum

from service.estimator.device import Device
from service.estimator.result import Estimate


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
    """Hold the device bytes of an estimate against what a process can allocate."""
    left = device.usable_bytes - estimate.device_bytes
    return Judgement(verdict=_verdict(estimate, device), headroom_bytes=max(left, 0), deficit_bytes=max(-left, 0))


def _verdict(estimate: Estimate, device: Device) -> Verdict:
    if estimate.device_bytes > device.usable_bytes:
        return Verdict.DOES_NOT_FIT
    return Verdict.FITS if estimate.device_interval.high <= device.usable_bytes else Verdict.TIGHT
