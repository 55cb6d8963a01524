"""Engine of a rollout on the trainer's GPUs, awake, synced and asleep."""

from collections.abc import Callable
from dataclasses import dataclass, fields

from service.estimator.memory.offloading import count_ranks_per_node
from service.estimator.memory.overheads.overheads import get_context_overhead
from service.estimator.reinforcement.share import NOTHING, OTHER, GpuShare
from service.estimator.values.errors import EstimatorError
from service.estimator.values.generation import Rollout, RolloutEngine
from service.estimator.values.layout import Layout
from service.estimator.values.result import Component, Estimate, Interval, Serving
from service.estimator.values.workload import Engine, ServeWorkload, TrainWorkload

AnswerReplica = Callable[[ServeWorkload, Layout], Estimate]

WEIGHTS, KV_CACHE = "engine_weights", "engine_kv_cache"
"""Components of a rollout's engine beside the trainer's."""
_NAMES = {"weights": WEIGHTS, "kv_cache": KV_CACHE}
_ASLEEP_SOURCE = "vLLM 0.33.0, v1/worker/gpu_worker.py, sleep; device_allocator/cumem.py"
_HOST_LEVEL = 1
_FIELDS = frozenset(item.name for item in fields(Rollout))


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutMemory:
    """Engine of a rollout, by what of it is on the GPU.

    ``synced`` has its weights and no pool.
    """

    awake: GpuShare
    synced: GpuShare
    resident: GpuShare
    """What is there while the trainer works."""
    serving: Serving | None
    host_bytes_per_node: int
    warnings: tuple[str, ...]


def build_replica(workload: TrainWorkload, rollout: Rollout) -> ServeWorkload:
    """Return the replica that generates.

    An engine with a pool starts where one sequence has room: it queues the others.
    """
    in_process = rollout.engine is RolloutEngine.TRANSFORMERS
    completion = workload.completion_length or 0
    longest = rollout.max_model_len or workload.sequence_length
    return ServeWorkload(
        engine=Engine(rollout.engine.value),
        engine_version=rollout.engine_version,
        num_sequences=rollout.num_sequences if in_process else 1,
        prompt_tokens=max(1, longest - completion),
        output_tokens=min(completion, longest - 1),
        weight_dtype=rollout.weight_dtype,
        kv_cache_dtype=rollout.kv_cache_dtype,
        max_model_len=None if in_process else rollout.max_model_len,
        max_num_batched_tokens=rollout.max_num_batched_tokens,
        max_num_sequences=None if in_process else rollout.max_num_sequences,
        gpu_memory_fraction=rollout.gpu_memory_fraction,
        enforce_eager=rollout.enforce_eager,
        attention=workload.attention,
    )


def estimate_engine(
    workload: TrainWorkload, layout: Layout, answer: AnswerReplica, *, gpu: str, kind: str
) -> RolloutMemory | None:
    """Return the memory of a rollout's engine.

    None is one on other GPUs. ``gpu`` and ``kind`` name the trainer's CUDA context, which an engine
    in its process shares.
    Raises what the engine's own estimate raises, of the rollout's fields.
    """
    rollout = workload.rollout
    if rollout is None:
        return None
    try:
        replica = answer(
            build_replica(workload, rollout),
            Layout(tensor_parallel=rollout.tensor_parallel, gpus_per_node=layout.gpus_per_node),
        )
    except EstimatorError as error:
        name = (error.field or "").rpartition(".")[2]
        if name in _FIELDS:
            error.field = f"workload.rollout.{name}"
        raise
    if rollout.engine is RolloutEngine.TRANSFORMERS:
        return _share_weights(replica)
    shared = 0 if rollout.own_process else get_context_overhead(gpu, kind).point
    weights = sum(part.bytes for part in replica.components if part.name == "weights")
    awake = _take(replica, tensors=replica.allocated_bytes, shared=shared)
    host = weights * count_ranks_per_node(layout) * (rollout.sleep_level == _HOST_LEVEL)
    return RolloutMemory(
        awake=awake,
        synced=_take(replica, tensors=weights, shared=shared),
        resident=_take(replica, tensors=0, shared=shared) if rollout.sleep_level else awake,
        serving=replica.serving,
        host_bytes_per_node=host,
        warnings=replica.warnings,
    )


def _share_weights(replica: Estimate) -> RolloutMemory:
    """Return what ``generate()`` adds to the weights that are trained."""
    weights = sum(part.bytes for part in replica.components if part.name == "weights")
    tensors = replica.allocated_bytes - weights
    parts = [
        _rename(part) for part in replica.components if part.name in {"kv_cache", "activations"}
    ]
    interval = replica.allocated_interval
    awake = GpuShare(
        components=(*parts, *_fill(tensors - sum(part.bytes for part in parts), replica)),
        tensors=tensors,
        outside=0,
        interval=Interval(max(0, interval.low - weights), interval.high - weights),
    )
    return RolloutMemory(
        awake=awake,
        synced=NOTHING,
        resident=NOTHING,
        serving=None,
        host_bytes_per_node=0,
        warnings=(),
    )


def _take(replica: Estimate, *, tensors: int, shared: int) -> GpuShare:
    """Return an engine of whose tensors so many are on the GPU.

    Those are its weights first. ``shared`` bytes of its context are the trainer's.
    """
    shared = min(shared, _count_beside_budget(replica))
    outside = replica.device_bytes - replica.allocated_bytes - shared
    is_awake = tensors == replica.allocated_bytes
    parts = [
        _rename(part)
        for part in replica.components
        if (part.name == "weights" and tensors) or (part.name == "kv_cache" and is_awake)
    ]
    unnamed = tensors + outside - sum(part.bytes for part in parts)
    device, gone = replica.device_interval, replica.allocated_bytes - tensors + shared
    return GpuShare(
        components=(*parts, *_fill(unnamed, replica)),
        tensors=tensors,
        outside=outside,
        interval=Interval(max(0, device.low - gone), max(tensors + outside, device.high - gone)),
    )


def _count_beside_budget(replica: Estimate) -> int:
    """Return the bytes of an engine beyond its budget.

    They are the context that it starts with.
    """
    budget = 0 if replica.serving is None else replica.serving.budget_bytes
    return max(0, replica.device_bytes - budget)


def _rename(part: Component) -> Component:
    name = _NAMES.get(part.name, OTHER)
    return Component(name, part.bytes, part.basis, part.formula, part.source)


def _fill(unnamed: int, replica: Estimate) -> tuple[Component, ...]:
    """Return the remaining parts of an engine as one component."""
    if unnamed <= 0:
        return ()
    remaining = [part for part in replica.components if part.name not in _NAMES]
    names = ", ".join(dict.fromkeys(part.name for part in remaining))
    basis = remaining[-1].basis if remaining else replica.components[-1].basis
    return (Component(OTHER, unnamed, basis, f"of the engine's {names}", _ASLEEP_SOURCE),)
