"""Offloaded states: GPU bytes released and host bytes needed."""

from dataclasses import dataclass, replace

from service.estimator.memory.setup import TrainSetup
from service.estimator.memory.states import SUB_GROUP_ELEMENTS, TrainStates
from service.estimator.memory.trained import GRADIENT_STAGE, TrainedParameters
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import OffloadTarget

FP32_BYTES = 4
SWAP_BUFFERS = 4
"""Pinned buffers of DeepSpeed's swapper (``offload_optimizer.buffer_count``, default 4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostParts:
    """Bytes of one rank in the host's memory, by part."""

    weights: int = 0
    gradients: int = 0
    optimizer: int = 0
    nvme: int = 0
    """Bytes of the rank on the node's NVMe, which are not in its memory."""

    @property
    def total(self) -> int:
        """Bytes of the rank in the host's memory."""
        return self.weights + self.gradients + self.optimizer


def round_up_pinned(size: int) -> int:
    """Return the bytes of a page-locked tensor.

    PyTorch rounds each up to a power of two (``CachingHostAllocator.cpp``).
    """
    return 1 << (size - 1).bit_length() if size else 0


def apply_offload(states: TrainStates, setup: TrainSetup) -> tuple[TrainStates, HostParts]:
    """Return the states that stay on the GPU, and the host's bytes.

    Activations are counted by ``count_host_activation_bytes``.
    """
    offload, layout = setup.workload.offload, setup.layout
    host = HostParts(optimizer=states.managed_states)
    if offload.parameters is not OffloadTarget.NONE and layout.sharding is Sharding.FSDP2:
        return _offload_fsdp(states, host, setup.trained, layout)
    if offload.optimizer is not OffloadTarget.NONE:
        states, host = _offload_optimizer(states, host, offload.optimizer, layout, setup.trained)
    if offload.parameters is not OffloadTarget.NONE:
        in_memory = offload.parameters is OffloadTarget.CPU
        host_bytes, nvme_bytes = (states.weights, 0) if in_memory else (0, states.weights)
        host = replace(host, weights=host_bytes, nvme=host.nvme + nvme_bytes)
        states = replace(states, weights=0, gradients=0)
    return states, host


def _offload_fsdp(
    states: TrainStates, host: HostParts, trained: TrainedParameters, layout: Layout
) -> tuple[TrainStates, HostParts]:
    """Apply FSDP2's ``CPUOffloadPolicy``.

    Pinned shards of parameters and gradients, and everything that is stepped, are on the host.
    """
    host = replace(
        host,
        weights=_sum_pinned_shards(trained, layout, trained.trained_dtype.bytes_per_element),
        gradients=_sum_pinned_shards(trained, layout, trained.grad_dtype.bytes_per_element),
        optimizer=host.optimizer + states.master_weights + states.optimizer_states,
    )
    remaining = replace(
        states,
        weights=0,
        gradients=0,
        master_weights=0,
        optimizer_states=0,
        persistent_main_gradients=0,
        step_main_gradients=0,
        step_temporaries=0,
    )
    return remaining, host


def _sum_pinned_shards(trained: TrainedParameters, layout: Layout, width: int) -> int:
    return sum(
        round_up_pinned(_count_shard_elements(weight, layout.shards) * width) * count
        for weight, count in trained.weights
    )


def _count_shard_elements(weight: Weight, shards: int) -> int:
    return ceil_div(weight.shape[0], shards) * (weight.numel // weight.shape[0])


def _offload_optimizer(
    states: TrainStates,
    host: HostParts,
    target: OffloadTarget,
    layout: Layout,
    trained: TrainedParameters,
) -> tuple[TrainStates, HostParts]:
    """Apply ZeRO-Offload to the optimizer.

    fp32 master, fp32 gradients and moments of the partition are on the host; the step runs there.
    From stage 2 on a gradient leaves the GPU when its bucket is reduced (DeepSpeed 0.19
    ``runtime/zero/stage_1_and_2.py``, ``stage3.py``); on NVMe only the swapper's buffers and the
    gradients stay in memory (``swap_tensor/optimizer_utils.py``).
    """
    elements = ceil_div(trained.trained, layout.shards)
    gradients = elements * FP32_BYTES
    stepped, swapped = states.master_weights + states.optimizer_states, 0
    if target is OffloadTarget.NVME:
        swapped = stepped
        stepped = SWAP_BUFFERS * round_up_pinned(min(elements, SUB_GROUP_ELEMENTS) * FP32_BYTES)
    leaves_gpu = layout.zero_stage >= GRADIENT_STAGE
    remaining = replace(
        states,
        gradients=0 if leaves_gpu else states.gradients,
        master_weights=0,
        optimizer_states=0,
        persistent_main_gradients=0,
        step_main_gradients=0,
        step_temporaries=0,
    )
    return remaining, replace(
        host, optimizer=host.optimizer + stepped, gradients=gradients, nvme=swapped
    )


def count_host_activation_bytes(setup: TrainSetup, num_tokens: int) -> int:
    """Return the bytes of activations kept on the host.

    Checkpoints keep the inputs of all layers in pinned memory until backward needs them.
    """
    if setup.workload.offload.activations is OffloadTarget.NONE:
        return 0
    model, precision = setup.model, setup.workload.precision
    width = (
        precision.param_dtype if precision.autocast else precision.compute_dtype
    ).bytes_per_element
    return model.num_hidden_layers * round_up_pinned(num_tokens * model.spec.hidden_size * width)


def count_ranks_per_node(layout: Layout) -> int:
    """Return the number of ranks that share one node's memory."""
    return min(layout.num_gpus, layout.gpus_per_node)
