"""Phases of a policy's training: rollout, log-probabilities, update and weight sync.

The update is an ordinary training step; the answer is the largest of all.
"""

from dataclasses import replace
from operator import attrgetter

from service.estimator.backends.pass_cache import PassCache
from service.estimator.memory.allocator.kernel_buffers import find_kernel_buffers, select_kernels
from service.estimator.memory.offloading import count_ranks_per_node
from service.estimator.memory.phase_peaks import Parts
from service.estimator.memory.question import TrainQuestion
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.static import StaticMemory, build_static_memory
from service.estimator.memory.training_pass import (
    build_setup_pass,
    get_fixed_fields,
    resolve_batch_shape,
)
from service.estimator.passes.scoring import record_scoring
from service.estimator.reinforcement.deciding import (
    add_engine,
    decide_by_phase,
    list_instants,
    shift,
)
from service.estimator.reinforcement.engine import NOTHING, EngineShare, RolloutMemory
from service.estimator.reinforcement.phase import LOG_PROBS, ROLLOUT, WEIGHT_SYNC, Phase
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Point, find_highest_point
from service.estimator.values.generation import Rollout, RolloutEngine
from service.estimator.values.losses import Reference
from service.estimator.values.memo import Memo
from service.estimator.values.result import (
    Estimate,
    Interval,
)

_UNTIMED = "times are those of the update: rollout, log-probabilities and weight sync have theirs"
_WEIGHTS = ("weights", "adapters")
_OPTIMIZER = ("optimizer_states", "master_weights")


def add_phases(
    update: Estimate, question: TrainQuestion, engine: RolloutMemory | None, cache: PassCache
) -> Estimate:
    """Return the estimate of a policy's training from that of its update.

    Its components and quantities are those of the phase that takes most of the GPU.
    """
    static_memory = _get_static_memory(question, cache)
    resident = NOTHING if engine is None else engine.resident
    phases = [_build_scoring(question, static_memory, resident, update, cache)]
    rollout = question.workload.rollout
    if engine is not None and rollout is not None:
        phases += _build_rollout(static_memory, rollout, engine, update)
    outside = update.device_bytes - update.reserved_bytes
    highest = max(phases, key=attrgetter("reserved_bytes"))
    added = replace(
        update,
        rollout=None if engine is None else engine.serving,
        host_bytes_per_node=update.host_bytes_per_node
        + _count_host_bytes(static_memory, rollout, engine),
        instants=list_instants(update, phases, resident) if update.instants else (),
        steady_bytes=update.steady_bytes + resident.tensors,
        warnings=(*update.warnings, *(() if engine is None else engine.warnings), _UNTIMED),
    )
    if highest.reserved_bytes + outside > update.device_bytes + resident.device_bytes:
        return decide_by_phase(added, update, highest, resident, question, static_memory)
    return add_engine(added, resident, highest)


def _get_static_memory(question: TrainQuestion, cache: PassCache) -> StaticMemory:
    memo: Memo[StaticMemory] = cache.get_memo("policies")
    model, workload, layout = question.model, question.workload, question.layout
    key = (cache.get_model_key(model), get_fixed_fields(workload), layout)
    return memo.get_or_make(
        key, lambda: build_static_memory(resolve_setup(model, workload, layout))
    )


def _build_scoring(
    question: TrainQuestion,
    static_memory: StaticMemory,
    engine: EngineShare,
    update: Estimate,
    cache: PassCache,
) -> Phase:
    """Return the forward passes that score sequences before the update."""
    workload = question.workload
    size = workload.log_prob_batch_size or workload.micro_batch_size
    scored = replace(workload, micro_batch_size=size)
    shape = resolve_batch_shape(static_memory.model, scored)
    kernels = find_kernel_buffers(question.device)
    points: Memo[tuple[Point, ...]] = cache.get_memo("scorings")
    candidates = points.get_or_make(
        (static_memory, shape, kernels),
        lambda: record_scoring(
            static_memory.model,
            select_kernels(build_setup_pass(static_memory.setup, shape), kernels),
        ),
    )
    values = sizes.evaluate_monomials(*scored.rows)
    parts = _list_resident_parts(static_memory)
    if workload.rollout is not None and workload.rollout.offload_optimizer:
        parts = _drop(parts, _OPTIMIZER)
    for name, size_ in find_highest_point(candidates, values).evaluate_parts(values).items():
        parts[name] = parts.get(name, 0) + size_
    return Phase(
        name=LOG_PROBS,
        parts=parts,
        engine=engine,
        slack=update.reserved_bytes - update.allocated_bytes,
        spread=shift(update.device_interval, -update.device_bytes),
    )


def _build_rollout(
    static_memory: StaticMemory,
    rollout: Rollout,
    engine: RolloutMemory,
    update: Estimate,
) -> list[Phase]:
    """Return the engine's generation, and the transfer of weights before it.

    A trainer whose engine wakes has emptied its allocator's cache: what is left of that is at most
    what the update had.
    """
    parts, slack = (
        _list_resident_parts(static_memory),
        update.reserved_bytes - update.allocated_bytes,
    )
    spread, slack = (Interval(0, slack), 0) if rollout.sleep_level else (Interval(0, 0), slack)
    gradients = max(0, update.steady_bytes - sum(parts.values()))
    parts["gradients"] = parts.get("gradients", 0) + gradients
    if rollout.offload_optimizer:
        parts = _drop(parts, _OPTIMIZER)
    moved = parts | {"gathered_weights": _count_sync_bytes(static_memory, rollout)}
    if rollout.offload_parameters:
        parts = _drop(parts, _WEIGHTS)
    generation = Phase(name=ROLLOUT, parts=parts, engine=engine.awake, slack=slack, spread=spread)
    if rollout.engine is RolloutEngine.TRANSFORMERS:
        return [generation]
    return [
        Phase(name=WEIGHT_SYNC, parts=moved, engine=engine.synced, slack=slack, spread=spread),
        generation,
    ]


def _list_resident_parts(static_memory: StaticMemory) -> Parts:
    """Return what lives from step to step, without gradients."""
    states = static_memory.states
    return static_memory.resident | {"gradients": states.persistent_main_gradients}


def _drop(parts: Parts, names: tuple[str, ...]) -> Parts:
    return {name: size for name, size in parts.items() if name not in names}


def _count_sync_bytes(static_memory: StaticMemory, rollout: Rollout) -> int:
    """Return the buffers through which weights reach the engine.

    Sharded ones are gathered tensor by tensor, and cast; all together where the trainer's process
    merges adapters into them (verl 0.8 ``fsdp_workers.py``,
    ``rollout_mode``; TRL 1.16 ``vllm_generation.py``, ``_iter_named_params``).
    """
    if static_memory.shards.weights == 1:
        return rollout.bucket_bytes
    setup = static_memory.setup
    merges = setup.workload.lora is not None and not rollout.own_process
    gathered = [weight.numel for weight, count in setup.model.counts.tensors for _ in range(count)]
    largest = sum(gathered) if merges else max(gathered)
    stored = setup.workload.precision.param_dtype
    width = stored.bytes_per_element
    width += rollout.weight_dtype.bytes_per_element * (stored is not rollout.weight_dtype)
    return rollout.bucket_bytes + largest * width


def _count_host_bytes(
    static_memory: StaticMemory, rollout: Rollout | None, engine: RolloutMemory | None
) -> int:
    moved, ranks = (
        _count_reference_bytes(static_memory),
        count_ranks_per_node(static_memory.setup.layout),
    )
    if rollout is None or engine is None:
        return moved * ranks
    parts = static_memory.resident
    names = (*(_WEIGHTS * rollout.offload_parameters), *(_OPTIMIZER * rollout.offload_optimizer))
    moved += sum(parts.get(name, 0) for name in names)
    return engine.host_bytes_per_node + moved * ranks


def _count_reference_bytes(static_memory: StaticMemory) -> int:
    """Return the bytes of a rank's reference on the host."""
    is_there = static_memory.setup.workload.reference is Reference.OFFLOADED
    return static_memory.states.weights * is_there
