"""Seconds in which a GPU waits for others.

They are gathers, reductions and exchanges that no product hides, and copies over PCIe.
"""

from service.estimator.memory.trained import PARAMETER_STAGE, TrainedParameters
from service.estimator.model.architecture import Architecture
from service.estimator.speed.links import Links
from service.estimator.speed.machine import Machine
from service.estimator.speed.micro_batch import PassTimes
from service.estimator.speed.rates import (
    CPU_ADAM_S_PER_PARAMETER,
    NVME_BYTES_PER_SECOND,
    PCIE_BYTES_PER_SECOND,
)
from service.estimator.speed.ring import estimate_ring_s
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Checkpointing, Method, OffloadTarget, TrainWorkload

_COPIES = {OffloadTarget.CPU: PCIE_BYTES_PER_SECOND, OffloadTarget.NVME: NVME_BYTES_PER_SECOND}


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
    layers = model.num_hidden_layers / layout.pipeline_parallel
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
    layers = (
        sum(count for block, count in model.blocks if block.idle_parameters())
        / layout.pipeline_parallel
    )
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
    layers = model.num_hidden_layers / layout.pipeline_parallel
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


def estimate_update_s(
    workload: TrainWorkload,
    layout: Layout,
    trained: TrainedParameters,
    machine: Machine,
    *,
    state_bytes: int,
    passes_over_states: int,
) -> float:
    """Return the seconds after the last backward.

    They are those of gradients that are not reduced yet, the step, and updated weights.
    """
    local = trained.trained / (layout.tensor_parallel * layout.pipeline_parallel)
    sharded = local / (layout.shards if layout.zero_stage else 1)
    gradients, weights = (
        local * trained.grad_dtype.bytes_per_element,
        local * trained.trained_dtype.bytes_per_element,
    )
    if workload.offload.optimizer is OffloadTarget.NONE:
        seconds = (
            passes_over_states
            * (state_bytes + (gradients + weights) * sharded / local)
            / machine.memory
        )
    else:
        seconds = _estimate_host_update_s(
            workload.offload.optimizer, layout, sharded, state_bytes, gradients + weights
        )
    if layout.zero_stage == 0:
        return seconds + machine.links.reduce(gradients, layout.shards, layout.tensor_parallel)
    if layout.zero_stage < PARAMETER_STAGE:
        return seconds + machine.links.gather(
            gradients + weights, layout.shards, layout.tensor_parallel
        )
    return seconds


def _estimate_host_update_s(
    where: OffloadTarget, layout: Layout, sharded: float, state_bytes: int, copied: float
) -> float:
    """Return the seconds of an optimizer step on the host.

    Gradients go there and weights come back, with one update for all ranks of a node.
    """
    states = 2 * state_bytes / NVME_BYTES_PER_SECOND if where is OffloadTarget.NVME else 0.0
    ranks = min(layout.gpus_per_node, layout.num_gpus)
    return copied / PCIE_BYTES_PER_SECOND + sharded * ranks * CPU_ADAM_S_PER_PARAMETER + states
