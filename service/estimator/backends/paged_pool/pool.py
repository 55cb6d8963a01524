"""An answer of an engine that fills a budget: fixed parts, and a pool of keys and values that takes the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from service.estimator.values.result import Basis, Component, Detail, Estimate, Instant, Interval, Serving, Stage


class Place(StrEnum):
    """Where a part is counted: by PyTorch's allocator, reserved by it, or by the driver alone."""

    ALLOCATED = "allocated"
    RESERVED = "reserved"
    DEVICE = "device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a rank's memory with its 95 % interval; ``budgeted`` parts lie inside of the engine's budget."""

    name: str
    bytes: int
    low: int
    high: int
    place: Place
    basis: Basis
    formula: str
    source: str
    budgeted: bool = True


def exact(name: str, size: int, formula: str, source: str) -> Part:
    """Return a part of tensors whose shapes are known."""
    return Part(
        name=name,
        bytes=size,
        low=size,
        high=size,
        place=Place.ALLOCATED,
        basis=Basis.EXACT,
        formula=formula,
        source=source,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A rank that an engine has filled: its parts with the pool among them, and what the pool holds.

    ``longest`` counts sequences of ``max_model_len`` tokens, as engines print it, ``smallest_bytes`` is what the budget must be
    for one of them to have room; ``asked_bytes`` is the cache of all sequences
    that the question has.
    """

    num_gpus: int
    parts: tuple[Part, ...]
    pool_bytes: int
    pool_tokens: int
    token_bytes: int
    asked_bytes: int
    required: tuple[int, int]
    """What the stage that needs most of its budget needs, and the upper end of that."""
    longest: float
    smallest_bytes: int
    max_num_sequences: int
    budget_bytes: int
    usable_bytes: int
    max_model_len: int
    stages: tuple[Stage, ...]
    worst_stage: int
    decode_bytes: int
    approximate: bool = False
    warnings: tuple[str, ...] = ()


def filled_estimate(filled: Filled, *, detail: Detail, warnings: tuple[str, ...]) -> Estimate:
    """Return the answer: the pool fills the budget, so that the three quantities hardly depend on the workload."""
    allocated = _span(filled, {Place.ALLOCATED})
    reserved = _span(filled, {Place.ALLOCATED, Place.RESERVED})
    device = _of_device(filled)
    point = _sum(filled, {Place.ALLOCATED})
    weights = sum(part.bytes for part in filled.parts if part.name == "weights")
    required, required_high = filled.required
    return Estimate(
        num_gpus=filled.num_gpus,
        allocated_bytes=point,
        reserved_bytes=_sum(filled, {Place.ALLOCATED, Place.RESERVED}),
        device_bytes=_sum(filled, set(Place)),
        steady_bytes=weights + filled.pool_bytes,
        allocated_interval=allocated,
        reserved_interval=reserved,
        device_interval=device,
        peak_instant="prefill",
        interval_kind="engine",
        components=merged_components(filled.parts) if detail is not Detail.NUMBERS else (),
        instants=_instants(filled, weights),
        stages=filled.stages,
        worst_pipeline_stage=filled.worst_stage,
        serving=Serving(
            kv_bytes_per_token=filled.token_bytes,
            kv_cache_bytes=filled.asked_bytes,
            required_bytes=required,
            budget_bytes=filled.budget_bytes,
            kv_pool_bytes=filled.pool_bytes,
            kv_pool_tokens=filled.pool_tokens,
            max_num_sequences=filled.max_num_sequences,
            max_concurrency=filled.longest,
            smallest_bytes=filled.smallest_bytes,
            required_high_bytes=required_high,
        ),
        warnings=(*filled.warnings, *_lacks(filled), *warnings),
    )


def _instants(filled: Filled, weights: int) -> tuple[Instant, ...]:
    """Return the weights alone, the profiled peak, and what decoding holds: weights, pool, and the hidden states of a step."""
    pool = filled.pool_bytes
    decoding = {"weights": weights, "kv_cache": pool, "activations": filled.decode_bytes - weights - pool}
    prefill = allocated_parts(filled.parts)
    return (
        Instant("load", weights, {"weights": weights}),
        Instant("prefill", sum(prefill.values()), prefill),
        Instant("decode", filled.decode_bytes, decoding),
    )


def _lacks(filled: Filled) -> tuple[str, ...]:
    """Return in words what has no room: the longest sequence or those that are asked in the pool, or what stands beside it."""
    found = []
    if (missing := filled.smallest_bytes - filled.budget_bytes) > 0:
        found.append(
            f"the engine does not start: its pool has no room for one sequence of max_model_len {filled.max_model_len:,} "
            f"tokens, for which its budget lacks {missing:,} B; a lower max_model_len needs less"
        )
    elif (missing := filled.required[0] - filled.budget_bytes) > 0:
        found.append(f"what is asked needs {missing:,} B more than the engine's budget of {filled.budget_bytes:,} B")
    if (missing := _sum(filled, set(Place)) - filled.usable_bytes) > 0:
        found.append(
            f"the engine's budget of {filled.budget_bytes:,} B leaves {missing:,} B too little for what it holds outside: "
            "a lower gpu_memory_fraction leaves more"
        )
    return tuple(found)


def _sum(filled: Filled, places: set[Place]) -> int:
    return sum(part.bytes for part in filled.parts if part.place in places)


def _of_device(filled: Filled) -> Interval:
    """Return the interval of everything: a budget that is a share of what its parts leave never takes more than there is."""
    found = _span(filled, set(Place))
    if not all(part.budgeted for part in filled.parts):
        return found
    return Interval(found.low, max(min(found.high, filled.usable_bytes), _sum(filled, set(Place))))


def _span(filled: Filled, places: set[Place]) -> Interval:
    """Return the interval of parts in a budget: what one of them takes more, the pool has less."""
    inside = [part for part in filled.parts if part.place in places]
    point = sum(part.bytes for part in inside)
    loose = [part for part in inside if not part.budgeted] or [part for part in inside if part.name != "kv_cache"]
    return Interval(point + sum(part.low - part.bytes for part in loose), point + sum(part.high - part.bytes for part in loose))


def allocated_parts(parts: Sequence[Part]) -> dict[str, int]:
    """Return the bytes of what PyTorch's allocator or the engine's own holds, by component."""
    found: dict[str, int] = {}
    for part in parts:
        if part.place is Place.ALLOCATED:
            found[part.name] = found.get(part.name, 0) + part.bytes
    return found


def merged_components(parts: Sequence[Part]) -> tuple[Component, ...]:
    """Return the parts as components; parts of one name are one."""
    found: dict[str, Component] = {}
    for part in parts:
        if part.bytes:
            known = found.get(part.name)
            found[part.name] = _component(part) if known is None else _together(known, part)
    return tuple(found.values())


def _component(part: Part) -> Component:
    return Component(part.name, part.bytes, part.basis, part.formula, part.source)


def _together(known: Component, part: Part) -> Component:
    formula, source = f"{known.formula} + {part.formula}", f"{known.source}; {part.source}"
    return Component(known.name, known.bytes + part.bytes, known.basis, formula, source)
