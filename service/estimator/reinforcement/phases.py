"""Phases of a policy's training: rollout, scores, updates and weight sync.

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
from service.estimator.reinforcement.critic import CriticMemory
from service.estimator.reinforcement.deciding import (
    add_share,
    decide_by_phase,
    list_instants,
    shift,
)
from service.estimator.reinforcement.engine import RolloutMemory
from service.estimator.reinforcement.phase import LOG_PROBS, ROLLOUT, WEIGHT_SYNC, Phase
from service.estimator.reinforcement.share import NOTHING, GpuShare
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Point, find_highest_point
from service.estimator.values.generation import Rollout, RolloutEngine
from service.estimator.values.layout import Sharding
from service.estimator.values.losses import Reference
from service.estimator.values.memo import Memo
from service.estimator.values.result import (
    Estimate,
    Interval,
)

_UNTIMED = "times are those of the update: rollout, log-probabilities and weight sync have theirs"
_CRITIC_UNTIMED = "a critic's values and its update have times of their own"
_WEIGHTS = ("weights", "adapters")
_OPTIMIZER = ("optimizer_states", "master_weights")


def add_phases(
    update: Estimate,
    question: TrainQuestion,
    engine: RolloutMemory | None,
    critic: CriticMemory | None,
    cache: PassCache,
) -> Estimate:
    """Return the estimate of a policy's training from that of its update.

    Its components and quantities are those of the phase that takes most of the GPU.
    """
    static_memory = _get_static_memory(question, cache)
    idle = NOTHING if critic is None else critic.idle
    asleep = NOTHING if engine is None else engine.resident
    resident, rollout = asleep + idle, question.workload.rollout
    phases = [_build_scoring(question, static_memory, resident, update, cache)]
    if engine is not None and rollout is not None:
        phases += _build_rollout(static_memory, rollout, engine, idle, update)
    if critic is not None:
        phases += critic.build_phases(_list_idle_parts(static_memory, rollout, update), asleep)
    outside = update.device_bytes - update.reserved_bytes
    highest = max(phases, key=attrgetter("reserved_bytes"))
    memories = [memory for memory in (engine, critic) if memory is not None]
    warnings = [warning for memory in memories for warning in memory.warnings]
    warnings += [_UNTIMED, *([] if critic is None else [_CRITIC_UNTIMED])]
    added = replace(
        update,
        rollout=None if engine is None else engine.serving,
        host_bytes_per_node=update.host_bytes_per_node
        + _count_host_bytes(static_memory, rollout)
        + sum(memory.host_bytes_per_node for memory in memories),
        instants=list_instants(update, phases, resident) if update.instants else (),
        steady_bytes=resident.tensors
        + sum(_list_resident_parts(static_memory).values())
        + _count_lasting_gradients(static_memory, rollout, update),
        warnings=(*update.warnings, *dict.fromkeys(warnings)),
    )
    if highest.reserved_bytes + outside > update.device_bytes + resident.device_bytes:
        return decide_by_phase(added, update, highest, resident, question, static_memory)
    return add_share(added, resident, highest)


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
    share: GpuShare,
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
        share=share,
        slack=update.reserved_bytes - update.allocated_bytes,
        spread=shift(update.device_interval, -update.device_bytes),
    )


def _build_rollout(
    static_memory: StaticMemory,
    rollout: Rollout,
    engine: RolloutMemory,
    idle: GpuShare,
    update: Estimate,
) -> list[Phase]:
    """Return the engine's generation, and the transfer of weights before it.

    A trainer whose engine wakes has emptied its allocator's cache: what is left of that is at most
    what the update had. ``idle`` is the critic's.
    """
    slack = update.reserved_bytes - update.allocated_bytes
    spread, slack = (Interval(0, slack), 0) if rollout.sleep_level else (Interval(0, 0), slack)
    present = replace(rollout, offload_parameters=False)
    moved = _list_idle_parts(static_memory, present, update)
    moved["gathered_weights"] = _count_sync_bytes(static_memory, rollout)
    generation = Phase(
        name=ROLLOUT,
        parts=_list_idle_parts(static_memory, rollout, update),
        share=engine.awake + idle,
        slack=slack,
        spread=spread,
    )
    if rollout.engine is RolloutEngine.TRANSFORMERS:
        return [generation]
    synced = engine.synced + idle
    return [
        Phase(name=WEIGHT_SYNC, parts=moved, share=synced, slack=slack, spread=spread),
        generation,
    ]


def _list_idle_parts(
    static_memory: StaticMemory, rollout: Rollout | None, update: Estimate
) -> Parts:
    """Return what of the policy stays while others work."""
    parts = _list_resident_parts(static_memory)
    parts["gradients"] = parts.get("gradients", 0) + _count_lasting_gradients(
        static_memory, rollout, update
    )
    if rollout is not None and rollout.offload_optimizer:
        parts = _drop(parts, _OPTIMIZER)
    if rollout is not None and rollout.offload_parameters:
        parts = _drop(parts, _WEIGHTS)
    return parts


def _count_lasting_gradients(
    static_memory: StaticMemory, rollout: Rollout | None, update: Estimate
) -> int:
    """Return the bytes of gradients that zero_grad leaves.

    verl's FSDP1 leaves none: its ``use_orig_params`` is false, and the flat gradient is what the
    optimizer drops (verl 0.9 ``workers/config/engine.py``; torch 2.13 ``_flat_param.py``).
    """
    is_verls = rollout is not None and rollout.own_process
    if is_verls and static_memory.setup.layout.sharding is Sharding.FSDP1:
        return 0
    return max(0, update.steady_bytes - sum(_list_resident_parts(static_memory).values()))


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


def _count_host_bytes(static_memory: StaticMemory, rollout: Rollout | None) -> int:
    """Return the policy's own bytes on a node's host."""
    moved = _count_reference_bytes(static_memory)
    if rollout is not None:
        parts = static_memory.resident
        names = (
            *(_WEIGHTS * rollout.offload_parameters),
            *(_OPTIMIZER * rollout.offload_optimizer),
        )
        moved += sum(parts.get(name, 0) for name in names)
    return moved * count_ranks_per_node(static_memory.setup.layout)


def _count_reference_bytes(static_memory: StaticMemory) -> int:
    """Return the bytes of a rank's reference on the host."""
    is_there = static_memory.setup.workload.reference is Reference.OFFLOADED
    return static_memory.states.weights * is_there
