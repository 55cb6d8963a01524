"""Times of one micro batch on a rank, stretch by stretch.

The GPU's are products, attention and bytes at measured rates; the host's are launches. A stretch
takes the longer of both.
"""

from dataclasses import dataclass
from typing import NamedTuple

from service.estimator.memory.lengths import has_packed_mask
from service.estimator.memory.trained import TrainedParameters
from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.shares import list_stage_shares
from service.estimator.speed.attention import time_attention
from service.estimator.speed.counting import Counts
from service.estimator.speed.host import (
    FORWARD_KERNELS,
    estimate_hooks_s,
    estimate_launch_s,
    estimate_unpacking_calls_s,
)
from service.estimator.speed.launch_queue import LaunchQueue
from service.estimator.speed.machine import Machine
from service.estimator.speed.micro_batch import PassTimes
from service.estimator.speed.rates import KERNEL_S, PRODUCT_OVERHEAD_S, Rates
from service.estimator.speed.work import FLOPS_PER_PRODUCT, ForwardWork
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Section
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Reference, Trainer
from service.estimator.values.workload import (
    Checkpointing,
    Framework,
    Method,
    TrainWorkload,
)

BACKWARD_PRODUCTS = {True: 2, False: 1}
"""Products of backward per product of forward: towards the input, and towards the weight when it is
trained.
"""
REFERENCE_PASSES = {Trainer.DPO: 1, Trainer.KTO: 2}
"""Forward passes of a reference in each step: KTO's has one over mismatched completions too, as its
policy has (TRL 1.16 ``dpo_trainer.py`` and ``kto_trainer.py``).
"""


def time_passes(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    trained: TrainedParameters,
    work: ForwardWork,
    machine: Machine,
) -> PassTimes:
    """Return the times of both passes on the slowest stage.

    Host and GPU are together.
    """
    split = layout.tensor_parallel * layout.context_parallel
    ranks = (_Rank(split, *share) for share in list_stage_shares(model, layout))
    times = (_time_rank(model, workload, trained, work, machine, rank) for rank in ranks)
    return max(times, key=lambda passes: passes.total)


def count_scoring_passes(workload: TrainWorkload) -> int:
    """Return the forward passes of a step that have no backward."""
    if workload.trainer not in REFERENCE_PASSES:
        return 0
    is_precomputed = workload.reference is Reference.PRECOMPUTED
    of_reference = 0 if is_precomputed else REFERENCE_PASSES[workload.trainer]
    return of_reference + (workload.trainer is Trainer.KTO)


class _Rank(NamedTuple):
    """Share of a rank: one of ``split`` parts of a stage's products."""

    split: int
    divisor: float
    num_heads: int


def _time_rank(
    model: Architecture,
    workload: TrainWorkload,
    trained: TrainedParameters,
    work: ForwardWork,
    machine: Machine,
    rank: _Rank,
) -> PassTimes:
    gpu = _time_kernels(model, workload, trained, work, machine, rank)
    host = _time_launches(model, workload, work, machine.rates, rank)
    queue, passes = LaunchQueue(), count_scoring_passes(workload)
    queue.run(host.forward, gpu.forward)
    queue.run(host.loss, gpu.loss)
    # Without autograd (``torch.no_grad``).
    host_s = (host.forward + host.loss) * machine.rates.ungraphed
    forward = queue.run(passes * host_s, passes * (gpu.forward + gpu.loss))
    queue.run(host.loss_backward, gpu.loss_backward)
    total = queue.run(host.backward, gpu.backward)
    return PassTimes(
        forward=forward,
        backward=total - forward,
        attention_forward=gpu.attention_forward,
        attention_backward=gpu.attention_backward,
        host_s=queue.host_busy,
        gpu_s=queue.gpu_busy,
        host_lead_s=queue.gpu - queue.host,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretches:
    """Seconds of a micro batch's stretches, on host or GPU."""

    forward: float
    loss: float
    loss_backward: float
    backward: float
    attention_forward: float = 0.0
    attention_backward: float = 0.0


def _time_kernels(
    model: Architecture,
    workload: TrainWorkload,
    trained: TrainedParameters,
    work: ForwardWork,
    machine: Machine,
    rank: _Rank,
) -> _Stretches:
    split, masked = rank.split, has_packed_mask(model, workload)
    batch, length = _get_rows(workload, masked=masked)
    tokens, rates = batch * length, machine.rates
    stages = split * rank.divisor
    values = sizes.evaluate_monomials(batch, length)

    def move(section: Section, ranks: float) -> float:
        counts = work.sections.get(section)
        if counts is None:
            return 0.0
        num_bytes = (
            work.product_bytes * tokens * _PASSES[section]
            if workload.compile and section in _PASSES
            else sizes.evaluate(counts.moved, values)
        )
        return num_bytes / ranks / machine.memory + counts.kernels * KERNEL_S

    rate = machine.get_rate(DType.FP8) if workload.float8 else machine.flops * rates.products
    is_grouped = workload.framework is Framework.TRANSFORMERS
    products = (
        FLOPS_PER_PRODUCT
        * work.count_block_products(batch, length, fills_tiles=is_grouped)
        / stages
        / rate
    )
    products += work.num_products * PRODUCT_OVERHEAD_S / rank.divisor
    products += _time_idle_weights(work, workload.precision.compute_dtype, machine) / stages
    head = (
        rank.num_heads
        * FLOPS_PER_PRODUCT
        * work.count_head_products(batch, length)
        / split
        / machine.get_head_rate(work.vocab_size)
    )
    flops = work.attention_flops(batch, length, masked=masked) / stages
    attention = time_attention(work, machine, flops, masked=masked)
    adapters = _time_adapters(workload, trained, machine, stages)
    full = workload.method is Method.FULL
    moved = move(Section.FORWARD, stages)
    blocks = products + attention[0] + moved + adapters
    recomputed = _get_recomputed_s(workload, blocks, products, attention[0])
    backward = BACKWARD_PRODUCTS[full] * products + move(Section.BACKWARD, stages)
    return _Stretches(
        forward=blocks,
        loss=head + rank.num_heads * move(Section.LOSS_FORWARD, split),
        loss_backward=BACKWARD_PRODUCTS[full] * head
        + rank.num_heads * move(Section.LOSS_BACKWARD, split),
        backward=backward + attention[1] + 2 * adapters + recomputed,
        attention_forward=attention[0],
        attention_backward=attention[1],
    )


def _get_rows(workload: TrainWorkload, *, masked: bool) -> tuple[int, int]:
    """Return the number and tokens of the rows that attention sees.

    Flash attention runs sequence by sequence even where they share a row.
    """
    number, length = workload.num_sequences, workload.sequence_length
    return (1, number * length) if masked else (number, length)


def _time_idle_weights(work: ForwardWork, dtype: DType, machine: Machine) -> float:
    """Return the seconds to read experts that one token does not meet."""
    return work.idle_weights * dtype.bytes_per_element / machine.streaming


_PASSES = {Section.FORWARD: 1, Section.BACKWARD: 2}


def _time_adapters(
    workload: TrainWorkload, trained: TrainedParameters, machine: Machine, stages: float
) -> float:
    """Return the seconds of the adapters' products in forward.

    They are thin: what decides is mostly that their inputs and outputs are read and written. Under
    autocast they are in its dtype.
    """
    if workload.lora is None:
        return 0.0
    precision = workload.precision
    dtype = precision.compute_dtype if precision.autocast else trained.trained_dtype
    tokens = workload.num_sequences * workload.sequence_length
    flops = tokens * FLOPS_PER_PRODUCT * trained.trained
    moved = tokens * trained.trained / max(workload.lora.rank, 1) * dtype.bytes_per_element
    return max(flops / machine.get_rate(dtype), moved / machine.memory) / stages


def _time_launches(
    model: Architecture, workload: TrainWorkload, work: ForwardWork, rates: Rates, rank: _Rank
) -> _Stretches:
    """Return the host's seconds for each stretch."""

    def launch(section: Section) -> float:
        counts = work.sections.get(section)
        if counts is None:
            return 0.0
        backward = section in {Section.BACKWARD, Section.LOSS_BACKWARD}
        if _is_fused(workload):
            counts = _fuse(counts)
        return estimate_launch_s(counts, rates, backward=backward)

    num_packed = work.num_products if _is_packed(model, workload) else 0
    calls = estimate_unpacking_calls_s(num_packed, rates)
    forward = (launch(Section.FORWARD) + calls) / rank.divisor
    hooks = estimate_hooks_s(work.forward, rates) / rank.divisor
    calls = estimate_unpacking_calls_s(num_packed, rates, backward=True)
    backward = (launch(Section.BACKWARD) + calls) / rank.divisor
    return _Stretches(
        forward=forward + FORWARD_KERNELS * rates.launch_s,
        loss=rank.num_heads * launch(Section.LOSS_FORWARD),
        loss_backward=rank.num_heads * launch(Section.LOSS_BACKWARD),
        backward=backward + _get_recomputed_s(workload, forward + hooks, 0.0, 0.0),
    )


def _is_packed(model: Architecture, workload: TrainWorkload) -> bool:
    return workload.method is Method.QLORA or model.quantization is not None


def _is_fused(workload: TrainWorkload) -> bool:
    """Return whether operations between products run as one kernel.

    A compiler makes them, or Transformer Engine and Megatron-LM have them by hand.
    """
    return workload.compile or workload.framework is Framework.MEGATRON


def _fuse(counts: Counts) -> Counts:
    """Return the kernels that a compiler leaves.

    One between each two products, and no views.
    """
    kernels = min(counts.kernels, 2 * (counts.products + counts.attentions))
    return Counts(kernels=kernels, moved=counts.moved)


def _get_recomputed_s(
    workload: TrainWorkload, blocks: float, products: float, attention: float
) -> float:
    match workload.activation_checkpointing:
        case Checkpointing.FULL:
            return blocks
        case Checkpointing.SELECTIVE if workload.selective_every is not None:
            return blocks / workload.selective_every
        case Checkpointing.SELECTIVE if workload.framework is Framework.MEGATRON:
            return attention
        case Checkpointing.SELECTIVE:
            return blocks - products / 2 - attention
        case _:
            return 0.0
