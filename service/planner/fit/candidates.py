"""What a search finds: configurations that are enough, and numbers of GPUs that are not, in words and numbers."""

from dataclasses import dataclass

from service.estimator.values.layout import Layout
from service.estimator.values.result import Component, Estimate, Serving, Throughput
from service.estimator.values.units import format_bytes
from service.estimator.values.workload import Workload
from service.planner.fit.confidence import in_percent
from service.planner.fit.verdict import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A complete configuration: fed back into a fit it gives the same bytes.

    ``missing_bytes`` is what it lacks for the confidence that was asked (with one, at the upper end of the interval), 0 when
    it is enough; ``seconds_per_token`` is that of the whole job, for comparing.
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
class Rejected:
    """A number of GPUs that is too small: the configuration that came nearest, in words and numbers.

    ``deficit_bytes`` is missing at the point, 0 when it is only tight; ``missing_bytes`` for the confidence that was asked.
    Both are 0 where it fits and takes too long. Where a node's host memory or NVMe is what lacks, the instant is ``offload``,
    the component that store, and the deficit its own.
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
    """What a node keeps offloaded bytes in: how many it is asked to, and has."""

    name: str
    needed: int
    has: int


def rejected(nearest: Candidate, usable_bytes: int, *, too_slow: str | None = None) -> Rejected:
    """Return why a number of GPUs is not enough, from an explained estimate of what came nearest."""
    estimate = nearest.estimate
    largest = max(estimate.components, key=lambda part: part.bytes)
    short = None if too_slow or largest.bytes > usable_bytes else _short_store(estimate)
    if short is not None:
        needed, has = format_bytes(short.needed), format_bytes(short.has)
        return Rejected(
            num_gpus=nearest.num_gpus,
            reason=f"offloading takes {needed} of a node's {short.name}, which has {has}",
            instant="offload",
            component=short.name.lower().replace(" ", "_"),
            deficit_bytes=short.needed - short.has,
            missing_bytes=nearest.missing_bytes,
            nearest=nearest,
        )
    return Rejected(
        num_gpus=nearest.num_gpus,
        reason=too_slow or _reason(nearest, largest, usable_bytes),
        instant=estimate.peak_instant,
        component=largest.name,
        deficit_bytes=nearest.judgement.deficit_bytes,
        missing_bytes=nearest.missing_bytes,
        nearest=nearest,
    )


def _short_store(estimate: Estimate) -> _Store | None:
    """Return what of a node lacks room for what is offloaded."""
    stores = (
        ("host memory", estimate.host_bytes_per_node, estimate.host_memory_bytes),
        ("NVMe", estimate.nvme_bytes_per_node, estimate.nvme_bytes),
    )
    short = (_Store(name, needed, has) for name, needed, has in stores if has is not None and needed > has)
    return next(short, None)


def _reason(nearest: Candidate, largest: Component, usable_bytes: int) -> str:
    estimate, part = nearest.estimate, largest.name.replace("_", " ")
    if estimate.serving is not None and estimate.serving.smallest_bytes is not None:
        replicas = nearest.layout.data_parallel
        size = nearest.num_gpus // replicas
        each = f"each of {replicas} replicas of {'1 GPU' if size == 1 else f'{size} GPUs'}: " if replicas > 1 else ""
        return each + _of_budget(estimate, estimate.serving, usable_bytes)
    usable = f"of {format_bytes(usable_bytes)} usable"
    if largest.bytes > usable_bytes:
        verb = "need" if part.endswith("s") else "needs"
        return f"{part} alone {verb} {format_bytes(largest.bytes)} per GPU {usable}"
    if estimate.device_bytes <= usable_bytes:
        high, level = format_bytes(estimate.device_interval.high), in_percent(estimate.interval_level)
        return f"{format_bytes(estimate.device_bytes)} per GPU {usable} would be tight: up to {high} at {level}"
    share = f"{part} {format_bytes(largest.bytes)}"
    return f"{estimate.peak_instant} needs {format_bytes(estimate.device_bytes)} per GPU {usable}, the most of it {share}"


def _of_budget(estimate: Estimate, serving: Serving, usable_bytes: int) -> str:
    needed, budget = max(serving.required_bytes, serving.smallest_bytes or 0), serving.budget_bytes
    said = f"the engine needs {format_bytes(needed)} per GPU of a budget of {format_bytes(budget)}"
    if needed > budget:
        return said
    high = serving.required_high_bytes
    level = in_percent(estimate.interval_level)
    if high is not None and high > budget:
        return f"{said}, which would be tight: up to {format_bytes(high)} at {level}"
    most = format_bytes(estimate.device_interval.high)
    beside = f"with what stands beside its budget of {format_bytes(budget)} the engine takes up to {most} at {level}"
    return f"{beside}, of {format_bytes(usable_bytes)} usable"
