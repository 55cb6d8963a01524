"""Seconds of context parallelism: keys and values of all ranks pass by each rank's attention, and their gradients go home.

Megatron's ranks send theirs on beside the attention over what came before (Transformer Engine's ``AttnFuncWithCPAndKVP2P``,
Megatron-LM's default ``cp_comm_type`` p2p; arXiv:2310.01889, section 3). PyTorch gathers them at once beside the attention over
a rank's own, and sends fp32 gradients on, the last of them beside nothing (torch 2.13
``_context_parallel/_attention.py``, ``_AllGatherRotater``, ``_templated_ring_attention_backward``).
"""

from service.estimator.model.architecture import Architecture
from service.estimator.speed.machine import Machine
from service.estimator.speed.micro_batch import Passes
from service.estimator.speed.rates import PRODUCT_OVERHEAD_S
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Checkpointing, Framework, TrainWorkload

KEY_AND_VALUE = 2


def around_the_ring(model: Architecture, workload: TrainWorkload, layout: Layout, passes: Passes, machine: Machine) -> float:
    """Return what one micro batch waits for other ranks' keys and values, and what attention in parts takes longer."""
    ranks = layout.context_parallel
    if ranks == 1:
        return 0.0
    layers = sum(count for block, count in model.blocks if block.cache_elements_per_token) / layout.pipeline_parallel
    whole = layers * _bytes(model, workload, layout) / machine.links.bus(ranks, layout.tensor_parallel)
    forward = 1 + _attends_again(workload)
    parts = layers * (ranks - 1) * PRODUCT_OVERHEAD_S * (forward + 1)
    if workload.framework is Framework.TORCHTITAN:
        return parts + _gathered(whole, workload, passes, ranks, forward)
    return parts + _passed_on(whole, passes, ranks, forward)


def _gathered(whole: float, workload: TrainWorkload, passes: Passes, ranks: int, forward: float) -> float:
    """Return what is left beside attention of gathers, and of gradients that go all the way round."""
    others, own = whole * (ranks - 1) / ranks, 1 / ranks
    home = whole * DType.FP32.bytes_per_element / workload.precision.compute_dtype.bytes_per_element
    seconds = forward * max(others - own * passes.attention_forward, 0) + max(others - own * passes.attention_backward, 0)
    return seconds + own * home + (1 - own) * max(home - passes.attention_backward, 0)


def _passed_on(whole: float, passes: Passes, ranks: int, forward: float) -> float:
    """Return what is left beside attention of keys and values sent on, in backward with their gradients.

    The last part of attention has nothing to send in forward; in backward each has, but the first no gradients and the last
    no keys and values.
    """
    beside = (ranks - 1) / ranks
    seconds = forward * beside * max(whole - passes.attention_forward, 0)
    ends = KEY_AND_VALUE * max(whole - passes.attention_backward, 0) / ranks
    return seconds + ends + (ranks - KEY_AND_VALUE) / ranks * max(KEY_AND_VALUE * whole - passes.attention_backward, 0)


def _bytes(model: Architecture, workload: TrainWorkload, layout: Layout) -> float:
    """Return the bytes of all keys and values that one layer's attention reads, a tensor-parallel rank's share of them."""
    tokens, width = workload.micro_batch_size * workload.sequence_length, workload.precision.compute_dtype.bytes_per_element
    heads = max(model.spec.num_key_value_heads / layout.tensor_parallel, 1)
    return tokens * KEY_AND_VALUE * heads * model.spec.head_dim * width


def _attends_again(workload: TrainWorkload) -> float:
    """Return how much of attention backward computes again."""
    match workload.activation_checkpointing:
        case Checkpointing.FULL:
            return 1
        case Checkpointing.SELECTIVE if workload.selective_every is not None:
            return 1 / workload.selective_every
        case Checkpointing.SELECTIVE if workload.framework is Framework.MEGATRON:
            return 1
        case _:
            return 0
