"""Verdicts on whether an estimate fits on a GPU."""

from dataclasses import dataclass
from enum import StrEnum

from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.device import Device
from service.estimator.values.result import Estimate, Serving


class Verdict(StrEnum):
    """Outcome of a fit.

    ``fits``: nothing is missing at the upper end of the interval; ``tight``: nothing is at the
    point.
    """

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does_not_fit"


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict with the bytes left or missing on the device.

    They are at the point estimate, and never negative.
    """

    verdict: Verdict
    headroom_bytes: int
    deficit_bytes: int


def judge(estimate: Estimate, device: Device) -> Judgement:
    """Judge an estimate at its point and at its upper end.

    The judgement says what the device has left.
    """
    remaining = device.usable_bytes - estimate.device_bytes - shared_host_bytes(estimate, device)
    return Judgement(
        verdict=_get_verdict(estimate, device),
        headroom_bytes=max(remaining, 0),
        deficit_bytes=max(-remaining, 0),
    )


def _get_verdict(estimate: Estimate, device: Device) -> Verdict:
    if missing_bytes(estimate, device, confident=False):
        return Verdict.DOES_NOT_FIT
    return Verdict.TIGHT if missing_bytes(estimate, device, confident=True) else Verdict.FITS


def needed_bytes(estimate: Estimate) -> int:
    """Return the bytes that must fit.

    The device's bytes, or of an engine that fills its budget what it cannot do without.
    """
    serving = estimate.serving
    if serving is not None and serving.smallest_bytes is not None:
        return max(serving.required_bytes, serving.smallest_bytes)
    return estimate.device_bytes


def missing_bytes(estimate: Estimate, device: Device, *, confident: bool) -> int:
    """Return the bytes missing on a GPU, in a budget or node.

    They are those at the interval's upper end if ``confident``.

    A pool fills the budget whatever is asked, and yet graphs and contexts beside it must find room
    on the device.
    """
    on_device = (
        estimate.device_interval.high if confident else estimate.device_bytes
    ) - device.usable_bytes
    on_device += shared_host_bytes(estimate, device)
    host = estimate.host_memory_bytes
    on_host = 0 if host is None else estimate.host_bytes_per_node - host
    nvme = estimate.nvme_bytes
    on_nvme = 0 if nvme is None else estimate.nvme_bytes_per_node - nvme
    return max(
        on_device,
        on_host,
        on_nvme,
        _compute_budget_shortfall(estimate.serving or estimate.rollout, confident=confident),
        0,
    )


def shared_host_bytes(estimate: Estimate, device: Device) -> int:
    """Return the host's bytes in the device's own memory."""
    return estimate.host_bytes_per_node if device.has_unified_memory else 0


def _compute_budget_shortfall(serving: Serving | None, *, confident: bool) -> int:
    """Return the shortfall of a pool.

    It counts what is required of the pool, and one sequence of the longest length, to start at all.
    """
    if serving is None or serving.smallest_bytes is None:
        return 0
    needs = (
        serving.required_high_bytes
        if confident and serving.required_high_bytes is not None
        else serving.required_bytes
    )
    return max(needs, serving.smallest_bytes) - serving.budget_bytes
