"""An answer made of parts alone: for an engine that allocates everything when it starts."""

from dataclasses import dataclass

from service.estimator.backends.paged_pool.pool import Part, allocated_parts, merged_components
from service.estimator.values.result import Detail, Estimate, Instant, Interval, Serving, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The parts, and what is told beside them; ``host_bytes`` is what the host keeps of the model."""

    num_gpus: int
    parts: tuple[Part, ...]
    load_bytes: int
    steady_bytes: int
    serving: Serving
    host_bytes: int = 0
    approximate: bool = False


def parts_estimate(totals: Totals, *, detail: Detail, warnings: tuple[str, ...]) -> Estimate:
    """Return the answer: what is allocated when the engine starts is what it needs until it ends."""
    held = allocated_parts(totals.parts)
    inside = sum(held.values())
    device = sum(part.bytes for part in totals.parts)
    low, high = sum(part.low for part in totals.parts), sum(part.high for part in totals.parts)
    point = Interval(inside, inside)
    return Estimate(
        num_gpus=totals.num_gpus,
        allocated_bytes=inside,
        reserved_bytes=inside,
        device_bytes=device,
        steady_bytes=totals.steady_bytes,
        allocated_interval=point,
        reserved_interval=point,
        device_interval=Interval(low, high),
        peak_instant="prefill",
        interval_kind="engine",
        components=merged_components(totals.parts) if detail is not Detail.NUMBERS else (),
        instants=(
            Instant("load", totals.load_bytes, {"weights": totals.load_bytes}),
            Instant("prefill", inside, held),
            Instant("decode", inside, held),
        ),
        stages=(Stage(0, inside, totals.steady_bytes),),
        host_bytes_per_node=totals.host_bytes,
        serving=totals.serving,
        warnings=warnings,
    )
