"""Seconds of context parallelism.

Keys and values of all ranks pass by each rank's attention, and their gradients go home. Megatron's
ranks send theirs on beside the attention over the ones that came before (Transformer Engine's
``AttnFuncWithCPAndKVP2P``, Megatron-LM's default ``cp_comm_type`` p2p; arXiv:2310.01889, section
3). PyTorch gathers them at once beside the attention over a rank's own, and sends fp32 gradients
on, the last of them beside nothing (torch 2.13 ``_context_parallel/_attention.py``,
``_AllGatherRotater``, ``_templated_ring_attention_backward``).
"""

from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.shares import get_layers_divisor
from service.estimator.speed.machine import Machine
from service.estimator.speed.micro_batch import PassTimes
from service.estimator.speed.rates import PRODUCT_OVERHEAD_S
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Checkpointing, Framework, TrainWorkload

KEY_AND_VALUE = 2


def estimate_ring_s(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    passes: PassTimes,
    machine: Machine,
) -> float:
    """Return the seconds that context parallelism adds to a micro batch.

    They are the wait for other ranks' keys and values, and the longer time of attention in parts.
    """
    ranks = layout.context_parallel
    if ranks == 1:
        return 0.0
    layers = sum(
        count for block, count in model.blocks if block.cache_elements_per_token
    ) / get_layers_divisor(model, layout)
    ring_s = (
        layers
        * _key_value_bytes(model, workload, layout)
        / machine.links.bus(ranks, layout.tensor_parallel)
    )
    forward = 1 + _get_recomputed_share(workload)
    parts_s = layers * (ranks - 1) * PRODUCT_OVERHEAD_S * (forward + 1)
    if workload.framework is Framework.TORCHTITAN:
        return parts_s + _estimate_gather_s(ring_s, workload, passes, ranks, forward)
    return parts_s + _estimate_send_s(ring_s, passes, ranks, forward)


def _estimate_gather_s(
    ring_s: float, workload: TrainWorkload, passes: PassTimes, ranks: int, forward: float
) -> float:
    """Return the exposed seconds of gathers and of gradients.

    Attention hides the rest; gradients go all the way round.
    """
    remote_s, local_share = ring_s * (ranks - 1) / ranks, 1 / ranks
    gradient_s = (
        ring_s * DType.FP32.bytes_per_element / workload.precision.compute_dtype.bytes_per_element
    )
    seconds = forward * max(remote_s - local_share * passes.attention_forward, 0) + max(
        remote_s - local_share * passes.attention_backward, 0
    )
    return (
        seconds
        + local_share * gradient_s
        + (1 - local_share) * max(gradient_s - passes.attention_backward, 0)
    )


def _estimate_send_s(ring_s: float, passes: PassTimes, ranks: int, forward: float) -> float:
    """Return the exposed seconds of keys and values sent on.

    Attention hides the rest; in backward their gradients go with them. The last part of attention
    has nothing to send in forward; in backward each has, but the first no gradients and the last no
    keys and values.
    """
    remote_share = (ranks - 1) / ranks
    seconds = forward * remote_share * max(ring_s - passes.attention_forward, 0)
    ends = KEY_AND_VALUE * max(ring_s - passes.attention_backward, 0) / ranks
    return (
        seconds
        + ends
        + (ranks - KEY_AND_VALUE)
        / ranks
        * max(KEY_AND_VALUE * ring_s - passes.attention_backward, 0)
    )


def _key_value_bytes(model: Architecture, workload: TrainWorkload, layout: Layout) -> float:
    """Return the bytes of keys and values that one layer's attention reads.

    They are a tensor-parallel rank's share.
    """
    tokens, width = (
        workload.micro_batch_size * workload.sequence_length,
        workload.precision.compute_dtype.bytes_per_element,
    )
    heads = max(model.spec.num_key_value_heads / layout.tensor_parallel, 1)
    return tokens * KEY_AND_VALUE * heads * model.spec.head_dim * width


def _get_recomputed_share(workload: TrainWorkload) -> float:
    """Return the share of attention that backward computes again."""
    match workload.activation_checkpointing:
        case Checkpointing.FULL:
            return 1
        case Checkpointing.SELECTIVE if workload.selective_every is not None:
            return 1 / workload.selective_every
        case Checkpointing.SELECTIVE if workload.framework is Framework.MEGATRON:
            return 1
        case _:
            return 0
