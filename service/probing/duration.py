"""Expected duration of a probe run, so that plans keep their deadline."""

from service.estimator.model.architecture import Architecture
from service.estimator.model.block_module import BlockModule
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.ssm.delta_net import DeltaNet
from service.estimator.model.modules.ssm.delta_rule import CHUNK
from service.estimator.model.modules.ssm.mamba import MambaMixer
from service.estimator.model.modules.ssm.mamba_block import MambaBlock
from service.estimator.values.layout import FULLY_SHARDED
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Checkpointing, ServeWorkload, TrainWorkload, Workload
from service.jobs.host import Host
from service.probing.plan import NUM_MICRO_BATCHES, Point, ProbeQuestion
from service.probing.stack import keep_layers

STEP_BYTES_PER_PARAMETER = 60
"""What a foreach AdamW step reads and writes per parameter."""
_SERVE_PASSES = 3
"""Prefill, the pass that fills the cache to its last length, and the decode of one token."""
FORWARD_OPERATORS = 27
"""Operators of a pass, views among them, for each parameter tensor: a traced layer of llama-3.1-8b
runs 244 for its 9.
"""
BACKWARD_OPERATORS = 51
"""As many of backward and of the optimizer's step: 456 in the same layer."""
SHARDING_OPERATORS = 30
"""What FSDP2 adds in a step, for 8 ranks as for 512: 266 in the same layer."""

SCAN_FORWARD_OPERATORS = 46
"""Operators of a selective scan for each token, one after another: 128 tokens more added as many to
a traced layer of mamba, and jamba's runs the same loop (transformers 5.23 without its kernels).
"""
SCAN_BACKWARD_OPERATORS = 77
"""As many of its backward."""
CHUNK_FORWARD_OPERATORS = 138
"""Operators of a gated delta rule for each chunk of tokens: two chunks more added as many to a
traced layer of qwen3_next.
"""
CHUNK_BACKWARD_OPERATORS = 222
"""As many of its backward."""


def estimate_point_seconds(point: Point, question: ProbeQuestion, host: Host) -> float:
    """Estimate the seconds of one probe.

    6 FLOP per parameter and token to train, 2 to serve (arXiv:2001.08361).
    """
    model, workload = keep_layers(question.architecture, point.layers), question.workload
    counts = model.parameter_counts()
    multiplied = counts.active - (0 if model.tied else counts.embedding)
    operators = _count_operators(model, question) + _count_looped_operators(model, workload, point)
    traced_s = operators * _invert(host.operators_per_second)
    if isinstance(workload, ServeWorkload):
        return traced_s + 2 * multiplied * point.num_tokens * _invert(host.flops_per_second)
    passes = 8 if workload.activation_checkpointing is Checkpointing.FULL else 6
    update_s = (
        0.0
        if workload.lora
        else counts.total * STEP_BYTES_PER_PARAMETER * _invert(host.state_bytes_per_second)
    )
    micro_batch_s = passes * multiplied * point.num_tokens * _invert(host.flops_per_second)
    return host.num_steps * (_count_micro_batches(workload) * micro_batch_s + update_s + traced_s)


def _count_operators(model: Architecture, question: ProbeQuestion) -> int:
    """Count the operators of a training step or of serving.

    They follow from the tensors that one training step, or all passes of serving, read.
    """
    workload = question.workload
    num_tensors = _count_tensors(model, workload)
    if isinstance(workload, ServeWorkload):
        return _SERVE_PASSES * FORWARD_OPERATORS * num_tensors
    recomputed = FORWARD_OPERATORS if workload.activation_checkpointing is Checkpointing.FULL else 0
    sharding = SHARDING_OPERATORS if question.layout.sharding in FULLY_SHARDED else 0
    per_tensor = FORWARD_OPERATORS + recomputed + BACKWARD_OPERATORS + sharding
    return _count_micro_batches(workload) * per_tensor * num_tensors


def _count_looped_operators(model: Architecture, workload: Workload, point: Point) -> int:
    """Count the operators of loops over tokens.

    No parameter tensor counts them; those of a batch run side by side.
    """
    forward = backward = 0
    for block, count in model.blocks:
        ahead, back = _count_loop_operators(block, point.sequence_length)
        forward, backward = forward + count * ahead, backward + count * back
        if isinstance(workload, ServeWorkload):
            forward += count * _count_loop_operators(block, point.output_tokens)[0]
    if isinstance(workload, ServeWorkload):
        return forward
    recomputed = forward if workload.activation_checkpointing is Checkpointing.FULL else 0
    return _count_micro_batches(workload) * (forward + recomputed + backward)


def _count_loop_operators(block: BlockModule, num_tokens: int) -> tuple[int, int]:
    """Count the operators of a layer's token loop, forward and backward."""
    mixer: object = None
    if isinstance(block, MambaBlock):
        mixer = block.mixer
    elif isinstance(block, Block):
        mixer = block.attention
    if isinstance(mixer, MambaMixer):
        return num_tokens * SCAN_FORWARD_OPERATORS, num_tokens * SCAN_BACKWARD_OPERATORS
    if isinstance(mixer, DeltaNet):
        chunks = ceil_div(num_tokens, CHUNK)
        return chunks * CHUNK_FORWARD_OPERATORS, chunks * CHUNK_BACKWARD_OPERATORS
    return 0, 0


def _count_tensors(model: Architecture, workload: Workload) -> int:
    """Count the parameter tensors of the layers.

    An adapter adds two to each linear layer.
    """
    adapted = isinstance(workload, TrainWorkload) and workload.lora is not None
    return sum(
        count * (sum(1 for _ in block.weights()) + (2 * len(block.linears()) if adapted else 0))
        for block, count in model.blocks
    )


def _count_micro_batches(workload: TrainWorkload) -> int:
    return min(NUM_MICRO_BATCHES, workload.gradient_accumulation_steps)


def _invert(per_second: float | None) -> float:
    return 0.0 if per_second is None else 1 / per_second
