"""Results of a search: sufficient configurations and rejected GPU counts."""

from dataclasses import dataclass

from service.estimator.values.layout import Layout
from service.estimator.values.result import Component, Estimate, Serving, Throughput
from service.estimator.values.units import format_bytes
from service.estimator.values.workload import Workload
from service.planner.fit.confidence import format_percent
from service.planner.fit.verdict import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A complete configuration with its estimate.

    Fed back into a fit it gives the same bytes.

    ``missing_bytes`` is the shortage at the requested confidence (with one, at the upper end of the
    interval), 0 when it is enough; ``seconds_per_token`` is that of the whole job, for comparing.
    """

    num_gpus: int
    workload: Workload
    layout: Layout
    estimate: Estimate
    judgement: Judgement
    missing_bytes: int
    seconds_per_token: float
    throughput: Throughput | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A GPU count that is too small, with its nearest configuration.

    ``deficit_bytes`` is missing at the point, 0 when it is only tight; ``missing_bytes`` for the
    confidence that was asked. Both are 0 where it fits and takes too long. Where a node's host
    memory or NVMe is what lacks, the instant is ``offload``, the component that store, and the
    deficit its own.
    """

    num_gpus: int
    reason: str
    instant: str
    component: str
    deficit_bytes: int
    missing_bytes: int
    nearest: Candidate


@dataclass(frozen=True, slots=True)
class _Store:
    """Memory of a node for offloaded bytes: needed and available."""

    name: str
    needed: int
    has: int


def make_rejection(
    nearest: Candidate, usable_bytes: int, *, too_slow: str | None = None
) -> Rejection:
    """Explain why a number of GPUs is not enough.

    ``nearest`` has an explained estimate of what came nearest.
    """
    estimate = nearest.estimate
    largest = max(estimate.components, key=lambda part: part.bytes)
    short = None if too_slow or largest.bytes > usable_bytes else _find_short_store(estimate)
    if short is not None:
        needed, has = format_bytes(short.needed), format_bytes(short.has)
        return Rejection(
            num_gpus=nearest.num_gpus,
            reason=f"offloading takes {needed} of a node's {short.name}, which has {has}",
            instant="offload",
            component=short.name.lower().replace(" ", "_"),
            deficit_bytes=short.needed - short.has,
            missing_bytes=nearest.missing_bytes,
            nearest=nearest,
        )
    return Rejection(
        num_gpus=nearest.num_gpus,
        reason=too_slow or _explain_shortage(nearest, largest, usable_bytes),
        instant=estimate.peak_instant,
        component=largest.name,
        deficit_bytes=nearest.judgement.deficit_bytes,
        missing_bytes=nearest.missing_bytes,
        nearest=nearest,
    )


def _find_short_store(estimate: Estimate) -> _Store | None:
    """Return the node's store that is too small for what is offloaded."""
    stores = (
        ("host memory", estimate.host_bytes_per_node, estimate.host_memory_bytes),
        ("NVMe", estimate.nvme_bytes_per_node, estimate.nvme_bytes),
    )
    short = (
        _Store(name, needed, has)
        for name, needed, has in stores
        if has is not None and needed > has
    )
    return next(short, None)


def _explain_shortage(nearest: Candidate, largest: Component, usable_bytes: int) -> str:
    estimate, part = nearest.estimate, largest.name.replace("_", " ")
    if estimate.serving is not None and estimate.serving.smallest_bytes is not None:
        replicas = nearest.layout.data_parallel
        size = nearest.num_gpus // replicas
        prefix = (
            f"each of {replicas} replicas of {'1 GPU' if size == 1 else f'{size} GPUs'}: "
            if replicas > 1
            else ""
        )
        return prefix + _explain_budget_shortage(estimate, estimate.serving, usable_bytes)
    usable = f"of {format_bytes(usable_bytes)} usable"
    if largest.bytes > usable_bytes:
        verb = "need" if part.endswith("s") else "needs"
        return f"{part} alone {verb} {format_bytes(largest.bytes)} per GPU {usable}"
    if estimate.device_bytes <= usable_bytes:
        high, level = (
            format_bytes(estimate.device_interval.high),
            format_percent(estimate.interval_level),
        )
        return (
            f"{format_bytes(estimate.device_bytes)} per GPU {usable} would be tight: up to {high} "
            f"at {level}"
        )
    share = f"{part} {format_bytes(largest.bytes)}"
    return (
        f"{estimate.peak_instant} needs {format_bytes(estimate.device_bytes)} per GPU {usable}, "
        f"the most of it {share}"
    )


def _explain_budget_shortage(estimate: Estimate, serving: Serving, usable_bytes: int) -> str:
    needed, budget = max(serving.required_bytes, serving.smallest_bytes or 0), serving.budget_bytes
    need = f"the engine needs {format_bytes(needed)} per GPU of a budget of {format_bytes(budget)}"
    if needed > budget:
        return need
    high = serving.required_high_bytes
    level = format_percent(estimate.interval_level)
    if high is not None and high > budget:
        return f"{need}, which would be tight: up to {format_bytes(high)} at {level}"
    upper_end = format_bytes(estimate.device_interval.high)
    total_need = (
        f"with what stands beside its budget of {format_bytes(budget)} the engine takes up to "
        f"{upper_end} at {level}"
    )
    return f"{total_need}, of {format_bytes(usable_bytes)} usable"
