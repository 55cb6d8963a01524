"""Estimate of an engine that allocates everything when it starts.

It is made of parts alone.
"""

from dataclasses import dataclass

from service.estimator.backends.paged_pool.memory_parts import (
    MemoryPart,
    merge_components,
    sum_allocated_parts,
)
from service.estimator.values.result import Detail, Estimate, Instant, Interval, Serving, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Parts of a rank, and their totals.

    ``stages`` are all GPUs, of which the worst has the parts; ``host_bytes`` is what the host keeps
    of the model.
    """

    num_gpus: int
    parts: tuple[MemoryPart, ...]
    load_bytes: int
    steady_bytes: int
    serving: Serving
    stages: tuple[Stage, ...]
    worst_stage: int = 0
    host_bytes: int = 0
    approximate: bool = False


def build_parts_estimate(totals: Totals, *, detail: Detail, warnings: tuple[str, ...]) -> Estimate:
    """Return the estimate made of the parts.

    What is allocated when the engine starts is what it needs until it ends.
    """
    allocated = sum_allocated_parts(totals.parts)
    allocated_bytes = sum(allocated.values())
    device = sum(part.bytes for part in totals.parts)
    low, high = sum(part.low for part in totals.parts), sum(part.high for part in totals.parts)
    point = Interval(allocated_bytes, allocated_bytes)
    return Estimate(
        num_gpus=totals.num_gpus,
        allocated_bytes=allocated_bytes,
        reserved_bytes=allocated_bytes,
        device_bytes=device,
        steady_bytes=totals.steady_bytes,
        allocated_interval=point,
        reserved_interval=point,
        device_interval=Interval(low, high),
        peak_instant="prefill",
        interval_kind="engine",
        components=merge_components(totals.parts) if detail.is_explained else (),
        instants=(
            Instant("load", totals.load_bytes, {"weights": totals.load_bytes}),
            Instant("prefill", allocated_bytes, allocated),
            Instant("decode", allocated_bytes, allocated),
        ),
        stages=totals.stages,
        worst_pipeline_stage=totals.worst_stage,
        host_bytes_per_node=totals.host_bytes,
        serving=totals.serving,
        warnings=warnings,
    )
