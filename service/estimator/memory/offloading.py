"""What offloading takes from the GPU and what it needs on the host instead."""

from dataclasses import dataclass, replace

from service.estimator.memory.states import GRADIENT_STAGE, SUB_GROUP_ELEMENTS, TrainedParameters, TrainStates
from service.estimator.model.architecture import Architecture
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import OffloadTarget, TrainWorkload

FP32_BYTES = 4
SWAP_BUFFERS = 4
"""Pinned buffers of DeepSpeed's swapper (``offload_optimizer.buffer_count``, default 4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostParts:
    """Bytes of one rank in the host's memory, by what they are."""

    weights: int = 0
    gradients: int = 0
    optimizer: int = 0
    nvme: int = 0
    """Bytes of the rank on the node's NVMe, which are not in its memory."""

    @property
    def total(self) -> int:
        """Everything that the rank keeps there."""
        return self.weights + self.gradients + self.optimizer


def pinned(size: int) -> int:
    """Return the bytes of a page-locked tensor: PyTorch rounds each up to a power of two (``CachingHostAllocator.cpp``)."""
    return 1 << (size - 1).bit_length() if size else 0


def offloaded(
    states: TrainStates, workload: TrainWorkload, layout: Layout, trained: TrainedParameters
) -> tuple[TrainStates, HostParts]:
    """Return the states that stay on the GPU, and what goes to the host; activations are counted for themselves."""
    asked = workload.offload
    host = HostParts(optimizer=states.managed_states)
    if asked.parameters is not OffloadTarget.NONE and layout.sharding is Sharding.FSDP2:
        return _fsdp_on_host(states, host, trained, layout)
    if asked.optimizer is not OffloadTarget.NONE:
        states, host = _optimizer_on_host(states, host, workload, layout, trained)
    if asked.parameters is not OffloadTarget.NONE:
        in_memory = asked.parameters is OffloadTarget.CPU
        kept, swapped = (states.weights, 0) if in_memory else (0, states.weights)
        host = replace(host, weights=kept, nvme=host.nvme + swapped)
        states = replace(states, weights=0, gradients=0)
    return states, host


def _fsdp_on_host(
    states: TrainStates, host: HostParts, trained: TrainedParameters, layout: Layout
) -> tuple[TrainStates, HostParts]:
    """Return FSDP2's ``CPUOffloadPolicy``: pinned shards of parameters and gradients, and all that is stepped, on the host."""
    host = replace(
        host,
        weights=_pinned_shards(trained, layout, trained.trained_dtype.bytes_per_element),
        gradients=_pinned_shards(trained, layout, trained.grad_dtype.bytes_per_element),
        optimizer=host.optimizer + states.master_weights + states.optimizer_states,
    )
    left = replace(
        states,
        weights=0,
        gradients=0,
        master_weights=0,
        optimizer_states=0,
        persistent_main_gradients=0,
        step_main_gradients=0,
        step_temporaries=0,
    )
    return left, host


def _pinned_shards(trained: TrainedParameters, layout: Layout, width: int) -> int:
    return sum(pinned(_rows(weight, layout.shards) * width) * count for weight, count in trained.weights)


def _rows(weight: Weight, shards: int) -> int:
    return ceil_div(weight.shape[0], shards) * (weight.numel // weight.shape[0])


def _optimizer_on_host(
    states: TrainStates, host: HostParts, workload: TrainWorkload, layout: Layout, trained: TrainedParameters
) -> tuple[TrainStates, HostParts]:
    """Return ZeRO-Offload: fp32 master, fp32 gradients and moments of the partition on the host; the step runs there.

    From stage 2 on a gradient leaves the GPU when its bucket is reduced (DeepSpeed 0.19 ``runtime/zero/stage_1_and_2.py``,
    ``stage3.py``); on NVMe only the swapper's buffers and the gradients stay in memory (``swap_tensor/optimizer_utils.py``).
    """
    elements = ceil_div(trained.trained, layout.shards)
    gradients = elements * FP32_BYTES
    stepped, swapped = states.master_weights + states.optimizer_states, 0
    if workload.offload.optimizer is OffloadTarget.NVME:
        swapped = stepped
        stepped = SWAP_BUFFERS * pinned(min(elements, SUB_GROUP_ELEMENTS) * FP32_BYTES)
    leaves = layout.zero_stage >= GRADIENT_STAGE
    left = replace(
        states,
        gradients=0 if leaves else states.gradients,
        master_weights=0,
        optimizer_states=0,
        persistent_main_gradients=0,
        step_main_gradients=0,
        step_temporaries=0,
    )
    return left, replace(host, optimizer=host.optimizer + stepped, gradients=gradients, nvme=swapped)


def activations_on_host(model: Architecture, workload: TrainWorkload) -> int:
    """Return the inputs of all layers, which checkpoints keep in pinned memory until backward comes by."""
    if workload.offload.activations is OffloadTarget.NONE:
        return 0
    precision = workload.precision
    width = (precision.param_dtype if precision.autocast else precision.compute_dtype).bytes_per_element
    tokens = workload.micro_batch_size * workload.sequence_length
    return model.num_hidden_layers * pinned(tokens * model.spec.hidden_size * width)


def ranks_per_node(layout: Layout) -> int:
    """Return how many ranks share the memory of one node."""
    return min(layout.num_gpus, layout.gpus_per_node)
