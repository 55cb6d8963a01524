"""Families of recorded runs, by which a replay is judged."""

from service.estimator.memory.intervals.replay_classes import RECORDED_OPTIMIZERS
from service.estimator.memory.static import StaticMemory
from service.estimator.model.architecture import Architecture
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.values.batches import SequencePacking
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import LOG_PROB_LOSSES, Kernels, Loss, Trainer
from service.estimator.values.workload import Cache, Method, Offload, ServeWorkload, TrainWorkload

_RECORDED_LOSSES = LOG_PROB_LOSSES | {Loss.FULL_LOGITS}
"""Losses of the recorded runs: the models' own, and TRL's default by each of its names, of which
``dft`` weighs the same log-probabilities.
"""
_NEAR_KERNELS = frozenset({Kernels.TORCH, Kernels.LIGER})
_NEAR_METHODS = frozenset({Method.FULL, Method.LORA, Method.QLORA})


def get_recorded_family(static_memory: StaticMemory) -> str | None:
    """Return the family whose recorded runs judge a replay.

    It is empty of steps unlike all of them, and None of older releases.
    """
    workload = static_memory.setup.workload
    if workload.framework_version is not None:
        return None
    is_like = static_memory.setup.layout.num_gpus == 1 and _is_recorded(workload)
    return static_memory.model.family if is_like else ""


def get_near_family(static_memory: StaticMemory) -> str:
    """Return the family whose recorded runs were nearly like a step.

    They differ in an optimizer, a loss, kernels or quantised weights, or ran on one GPU. It is
    empty of steps that differ in more.
    """
    workload, layout = static_memory.setup.workload, static_memory.setup.layout
    is_near = (
        workload.framework_version is None
        and workload.kernels in _NEAR_KERNELS
        and workload.method in _NEAR_METHODS
        and workload.offload == Offload()
        and workload.trainer is Trainer.SUPERVISED
        and _is_recorded_scheme(static_memory.setup.base_weights.scheme)
        and (layout.num_gpus == 1 or (_is_recorded_rank(layout) and _is_recorded(workload)))
    )
    return static_memory.model.family if is_near else ""


def _is_recorded(workload: TrainWorkload) -> bool:
    """Return whether recorded runs had what a step has, whatever its model."""
    return (
        workload.kernels is Kernels.TORCH
        and workload.method in {Method.FULL, Method.LORA}
        and workload.optimizer in RECORDED_OPTIMIZERS
        and workload.offload == Offload()
        and workload.trainer is Trainer.SUPERVISED
        and workload.packing is SequencePacking.NONE
        and workload.loss in _RECORDED_LOSSES
    )


def _is_recorded_rank(layout: Layout) -> bool:
    """Return whether ranks of such a layout were recorded or traced.

    They were those of DDP, FSDP2 and tensor parallelism.
    """
    return (
        layout.sharding in {Sharding.DDP, Sharding.FSDP2}
        and layout.num_gpus == layout.data_parallel * layout.tensor_parallel
        and layout.shard_size is None
    )


def get_served_family(
    model: Architecture, workload: ServeWorkload, scheme: Scheme | None
) -> str | None:
    """Return the family whose recorded runs judge serving.

    They had growing caches and plain weights.
    """
    if workload.engine_version is not None:
        return None
    is_like = scheme is None and workload.cache is Cache.DYNAMIC and workload.num_beams == 1
    return model.family if is_like else ""


def get_near_served_family(
    model: Architecture, workload: ServeWorkload, scheme: Scheme | None
) -> str:
    """Return the family whose recorded runs were nearly like serving.

    They differ in quantised weights, a static cache or beams.
    """
    is_near = workload.engine_version is None and _is_recorded_scheme(scheme)
    return model.family if is_near else ""


def _is_recorded_scheme(scheme: Scheme | None) -> bool:
    """Return whether weights of a format were recorded.

    Plain ones were, and bitsandbytes' of 4 bits.
    """
    return scheme is None or scheme.packing is Packing.BLOCKS_4BIT
