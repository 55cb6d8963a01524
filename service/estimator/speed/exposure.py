"""Seconds in which a GPU waits for others.

They are gathers, reductions and exchanges that no product hides, copies over PCIe, and a
pipeline's stages.
"""

from dataclasses import dataclass
from fractions import Fraction

from service.estimator.memory.trained import PARAMETER_STAGE, TrainedParameters
from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.shares import get_layers_divisor
from service.estimator.speed.links import Links
from service.estimator.speed.machine import Machine
from service.estimator.speed.micro_batch import PassTimes
from service.estimator.speed.rates import (
    CPU_ADAM_S_PER_PARAMETER,
    NVME_BYTES_PER_SECOND,
    PCIE_BYTES_PER_SECOND,
    Rates,
)
from service.estimator.speed.ring import estimate_ring_s
from service.estimator.speed.updates import TENSORS_PER_LAUNCH, get_update_traffic
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.pipeline import PipelineSchedule
from service.estimator.values.workload import Checkpointing, Method, OffloadTarget, TrainWorkload

_WEIGHTS = Fraction(1, 3)
"""Part of a micro-batch's passes that is the gradients of weights (arXiv:2401.10241, section 2)."""
_BUBBLES = {
    PipelineSchedule.GPIPE: Fraction(1),
    PipelineSchedule.ONE_F_ONE_B: Fraction(1),
    PipelineSchedule.INTERLEAVED: Fraction(1),
    PipelineSchedule.LOOPED_BFS: Fraction(1),
    PipelineSchedule.INTERLEAVED_ZERO_BUBBLE: _WEIGHTS,
    PipelineSchedule.ZBV: Fraction(0),
    PipelineSchedule.DUAL_PIPE_V: 2 * _WEIGHTS,
}
"""Micro-batches of waiting for each further stage and chunk.

1F1B and GPipe wait for a whole micro-batch, interleaved ones for a chunk of it (arXiv:2104.04473,
section 2.2); ZB-H1 fills all but ``F + B - 2 W``, ZBV all of it where forward, inputs and weights
take as long (arXiv:2401.10241, section 2.3 and 6); DualPipe leaves ``F&B + B - 3 W``
(arXiv:2412.19437, table 2).
"""
_COPIES = {OffloadTarget.CPU: PCIE_BYTES_PER_SECOND, OffloadTarget.NVME: NVME_BYTES_PER_SECOND}


def get_bubble_share(layout: Layout) -> float:
    """Return the micro-batches' time that a stage waits in one step."""
    stages, virtual = layout.pipeline_parallel, layout.virtual_pipeline_stages
    bubble = (stages - 1) / virtual
    share = _BUBBLES[layout.schedule]
    return bubble if share == 1 else bubble * float(share)


def estimate_waiting_s(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    passes: PassTimes,
    machine: Machine,
) -> float:
    """Return the seconds of one micro batch spent waiting for others."""
    seconds = _estimate_tensor_parallel_s(
        model, workload, layout, machine.links
    ) + _estimate_all_to_all_s(model, workload, layout, machine.links)
    seconds += estimate_ring_s(model, workload, layout, passes, machine)
    if workload.offload.activations is not OffloadTarget.NONE:
        seconds += max(_estimate_activation_offload_s(model, workload, layout) - passes.total, 0)
    return seconds + _estimate_gather_s(model, workload, layout, passes, machine.links)


def _estimate_gather_s(
    model: Architecture, workload: TrainWorkload, layout: Layout, passes: PassTimes, links: Links
) -> float:
    """Return the exposed seconds of gathers and reductions.

    They are those of sharded parameters that the passes do not hide. FSDP prefetches the next
    block. DeepSpeed prefetches 0.9 hidden² parameters as transformers configures it
    (integrations/deepspeed.py, ``stage3_prefetch_bucket_size``), a small part of a layer: its
    gathers are waited for.
    """
    if layout.shards == 1 or layout.zero_stage < PARAMETER_STAGE:
        return 0.0
    num_splits = layout.tensor_parallel * layout.pipeline_parallel
    weights = (
        model.parameter_counts().total
        * workload.precision.compute_dtype.bytes_per_element
        / num_splits
    )
    gather = links.gather(weights, layout.shards, layout.tensor_parallel)
    if workload.offload.parameters is not OffloadTarget.NONE:
        gather = max(gather, weights / layout.shards / _COPIES[workload.offload.parameters])
    width = workload.precision.compute_dtype.bytes_per_element
    reduced = (
        workload.precision.reduce_dtype or workload.precision.grad_dtype
    ).bytes_per_element / width
    reduce = gather * reduced if workload.method is Method.FULL else 0.0
    regather = gather if layout.reshard_after_forward else 0.0
    if layout.sharding is Sharding.DEEPSPEED:
        return gather + regather + max(reduce - passes.backward, 0)
    first = gather / (model.num_hidden_layers + 1)
    return first + max(gather - passes.forward, 0) + max(regather + reduce - passes.backward, 0)


def _estimate_tensor_parallel_s(
    model: Architecture, workload: TrainWorkload, layout: Layout, links: Links
) -> float:
    """Return the seconds of tensor-parallel all-reduces.

    They are those of two halves of each layer, in forward, backward and recomputation.
    """
    if layout.tensor_parallel == 1:
        return 0.0
    layers = model.num_hidden_layers / get_layers_divisor(model, layout)
    hidden = _hidden_bytes(model, workload, layout)
    return 2 * _count_layer_runs(workload) * layers * links.reduce(hidden, layout.tensor_parallel)


def _estimate_all_to_all_s(
    model: Architecture, workload: TrainWorkload, layout: Layout, links: Links
) -> float:
    """Return the seconds of the all-to-alls of expert parallelism.

    They send tokens to the ranks of their experts and back.
    """
    if layout.expert_parallel == 1:
        return 0.0
    layers = model.counts.num_sparse_blocks / get_layers_divisor(model, layout)
    routed = _hidden_bytes(model, workload, layout) * model.spec.num_experts_per_token
    return (
        2
        * _count_layer_runs(workload)
        * layers
        * links.exchange(routed, layout.expert_parallel, layout.tensor_parallel)
    )


def _estimate_activation_offload_s(
    model: Architecture, workload: TrainWorkload, layout: Layout
) -> float:
    """Return the seconds of offloading the inputs of layers.

    The inputs go to the host and back.
    """
    layers = model.num_hidden_layers / get_layers_divisor(model, layout)
    return (
        2
        * layers
        * _hidden_bytes(model, workload, layout)
        / layout.tensor_parallel
        / _COPIES[workload.offload.activations]
    )


def _hidden_bytes(model: Architecture, workload: TrainWorkload, layout: Layout) -> float:
    tokens = workload.num_sequences * workload.sequence_length / layout.context_parallel
    return tokens * model.spec.hidden_size * workload.precision.compute_dtype.bytes_per_element


def _count_layer_runs(workload: TrainWorkload) -> int:
    """Return the number of runs and differentiations of a layer."""
    return 3 if workload.activation_checkpointing is Checkpointing.FULL else 2


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTimes:
    """Seconds after the last backward: launches, kernels, and what both wait for."""

    host_s: float
    gpu_s: float
    waiting_s: float

    def behind(self, host_lead_s: float) -> float:
        """Return the seconds behind a GPU that is still busy for ``host_lead_s``.

        The lead is 0 where the host waits for the loss first.
        """
        return max(self.gpu_s, self.host_s - host_lead_s) + self.waiting_s


CLIPPED = 3
"""Accesses of a gradient that is clipped: its norm reads it, its product reads and writes it."""
CLIPPING_LISTS = 3
"""Operations on lists: norms, their stack, products (torch ``clip_grad_norm_``)."""


def estimate_update(
    workload: TrainWorkload,
    layout: Layout,
    trained: TrainedParameters,
    machine: Machine,
    *,
    state_bytes: int,
) -> UpdateTimes:
    """Return the times after the last backward.

    They are those of gradients that are not reduced yet, the step, and updated weights.
    """
    local = trained.trained / (layout.tensor_parallel * layout.pipeline_parallel)
    sharded = local / (layout.shards if layout.zero_stage else 1)
    gradients, weights = (
        local * trained.grad_dtype.bytes_per_element,
        local * trained.trained_dtype.bytes_per_element,
    )
    host_s, gpu_s, waiting_s = 0.0, 0.0, 0.0
    if workload.offload.optimizer is OffloadTarget.NONE:
        gpu_s = _time_update_kernels(workload, trained, machine, sharded, state_bytes)
        num_tensors = sum(count for _, count in trained.weights) / layout.pipeline_parallel
        host_s = _time_update_launches(workload, machine.rates, num_tensors, sharded)
    else:
        waiting_s = _estimate_host_update_s(
            workload.offload.optimizer, layout, sharded, state_bytes, gradients + weights
        )
    if layout.zero_stage == 0:
        waiting_s += machine.links.reduce(gradients, layout.shards, layout.tensor_parallel)
    elif layout.zero_stage < PARAMETER_STAGE:
        waiting_s += machine.links.gather(
            gradients + weights, layout.shards, layout.tensor_parallel
        )
    return UpdateTimes(host_s=host_s, gpu_s=gpu_s, waiting_s=waiting_s)


def _time_update_kernels(
    workload: TrainWorkload,
    trained: TrainedParameters,
    machine: Machine,
    elements: float,
    state_bytes: int,
) -> float:
    traffic = get_update_traffic(workload.optimizer)
    gradients = traffic.gradients + (CLIPPED if workload.gradient_clipping else 0)
    width = trained.optimizer_dtype.bytes_per_element
    accesses = (
        (traffic.weights * elements, trained.trained_dtype.bytes_per_element),
        (gradients * elements, trained.grad_dtype.bytes_per_element),
        (traffic.states * state_bytes / width, width),
        (traffic.temporaries * elements, traffic.temporary_bytes or width),
    )
    return sum(count * each / machine.get_update_rate(each) for count, each in accesses)


def _time_update_launches(
    workload: TrainWorkload, rates: Rates, num_tensors: float, elements: float
) -> float:
    traffic = get_update_traffic(workload.optimizer)
    kernels = traffic.count_kernels(num_tensors, elements)
    if workload.gradient_clipping:
        kernels += CLIPPING_LISTS * num_tensors / TENSORS_PER_LAUNCH
    launch_s = kernels * rates.launch_s + traffic.views * num_tensors * rates.view_s
    # A step has no autograd (``torch.no_grad``).
    return launch_s * rates.ungraphed


def _estimate_host_update_s(
    where: OffloadTarget, layout: Layout, sharded: float, state_bytes: int, copied: float
) -> float:
    """Return the seconds of an optimizer step on the host.

    Gradients go there and weights come back, with one update for all ranks of a node.
    """
    states = 2 * state_bytes / NVME_BYTES_PER_SECOND if where is OffloadTarget.NVME else 0.0
    ranks = min(layout.gpus_per_node, layout.num_gpus)
    return copied / PCIE_BYTES_PER_SECOND + sharded * ranks * CPU_ADAM_S_PER_PARAMETER + states
