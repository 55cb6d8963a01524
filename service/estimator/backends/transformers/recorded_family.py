"""Families of recorded runs, by which a replay is judged."""

from service.estimator.memory.intervals.replay_classes import RECORDED_OPTIMIZERS
from service.estimator.memory.static import StaticMemory
from service.estimator.model.architecture import Architecture
from service.estimator.model.weights.scheme import Scheme
from service.estimator.values.batches import SequencePacking
from service.estimator.values.losses import LOG_PROB_LOSSES, Kernels, Loss, Trainer
from service.estimator.values.workload import Cache, Method, Offload, ServeWorkload

_RECORDED_LOSSES = LOG_PROB_LOSSES | {Loss.FULL_LOGITS}
"""Losses of the recorded runs: the models' own, and TRL's default by each of its names, of which
``dft`` weighs the same log-probabilities.
"""


def get_recorded_family(static_memory: StaticMemory) -> str | None:
    """Return the family whose recorded runs judge a replay.

    It is empty of steps unlike all of them, and None of older releases.
    """
    workload = static_memory.setup.workload
    if workload.framework_version is not None:
        return None
    is_like = (
        static_memory.setup.layout.num_gpus == 1
        and workload.kernels is Kernels.TORCH
        and workload.method in {Method.FULL, Method.LORA}
        and workload.optimizer in RECORDED_OPTIMIZERS
        and workload.offload == Offload()
        and workload.trainer is Trainer.SUPERVISED
        and workload.packing is SequencePacking.NONE
        and workload.loss in _RECORDED_LOSSES
    )
    return static_memory.model.family if is_like else ""


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
