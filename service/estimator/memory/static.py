"""Static memory of a training step on one rank.

It is the states, shards and buffers of the rank. Nothing here depends on ``micro_batch_size`` or
``sequence_length``, so that one static memory serves every question that differs in them alone.
"""

from dataclasses import dataclass

from service.estimator.memory.fsdp_buffers import Buckets, compute_buckets
from service.estimator.memory.offloading import apply_offload
from service.estimator.memory.phase_peaks import Parts
from service.estimator.memory.setup import TrainSetup
from service.estimator.memory.states import TrainStates, compute_train_states
from service.estimator.memory.trained import (
    PARAMETER_STAGE,
    Shards,
    TrainedParameters,
    has_flat_gradients,
)
from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Offload

_ON_THE_GPU = Offload()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StaticMemory:
    """Static memory of one rank, which outlives its micro batches.

    It is equal to itself alone, so that looking it up costs nothing. ``grad_bytes`` is the price of
    an element of a stored gradient in backward, 0 where gradients have a place already.
    """

    setup: TrainSetup
    states: TrainStates
    buckets: Buckets
    grad_bytes: int
    gathers: bool
    """Whether parameters are gathered on their way through the model."""
    resident: Parts
    """Bytes that live from step to step and while a micro batch is under way, by part."""
    resident_bytes: int
    steady_bytes: int
    evaluation: Parts
    """Bytes at an evaluation between steps, by part."""
    step: Parts
    """Bytes at the optimizer's step, by part."""
    step_bytes: int
    host_bytes: int
    """Bytes of the rank in the host's memory, without its activations."""
    nvme_bytes: int

    @property
    def model(self) -> Architecture:
        """The rank's shard of the model."""
        return self.setup.model

    @property
    def trained(self) -> TrainedParameters:
        """Parameters that are trained."""
        return self.setup.trained

    @property
    def shards(self) -> Shards:
        """Number of ranks that each part is sharded over."""
        return self.setup.shards

    @property
    def loaded_bytes(self) -> int:
        """Weights and buffers, as they are loaded."""
        return self.states.weights + self.states.buffers


def build_static_memory(setup: TrainSetup) -> StaticMemory:
    """Return the static memory of one rank."""
    workload, layout, trained = setup.workload, setup.layout, setup.trained
    states, host_bytes, nvme_bytes = compute_train_states(setup), 0, 0
    offloads = workload.offload != _ON_THE_GPU
    if offloads or states.managed_states:
        states, host = apply_offload(states, setup)
        host_bytes, nvme_bytes = host.total, host.nvme
    grad_bytes, shards = trained.grad_dtype.bytes_per_element, setup.shards
    param_bytes = trained.trained_dtype.bytes_per_element
    comm_buffers = compute_buckets(
        layout, workload.precision, trained=trained.trained, param_bytes=param_bytes
    )
    keeps_buffer = layout.sharding is Sharding.DEEPSPEED and layout.zero_stage == PARAMETER_STAGE
    is_flat = has_flat_gradients(layout, workload.precision)
    accumulates = workload.gradient_accumulation_steps > 1 or keeps_buffer or is_flat
    resident = _collect_resident_parts(
        states, comm_buffers, states.persistent_main_gradients + states.gradients * accumulates
    )
    # Its gradients are those that zero_grad leaves and no forward drops.
    evaluation = resident | {
        "gradients": states.persistent_main_gradients + states.gradients * (keeps_buffer or is_flat)
    }
    step = resident | {
        "gradients": states.gradients
        + states.persistent_main_gradients
        + states.step_main_gradients
        + _count_recreated_gradient_bytes(layout, states, comm_buffers),
        "temporaries": states.step_temporaries,
    }
    return StaticMemory(
        setup=setup,
        states=states,
        buckets=comm_buffers,
        grad_bytes=0 if keeps_buffer or (offloads and not states.gradients) else grad_bytes,
        gathers=shards.weights > 1 or layout.sharding is Sharding.FSDP2,
        resident=resident,
        resident_bytes=sum(resident.values()),
        steady_bytes=states.resident
        + comm_buffers.resident
        + states.gradients * (keeps_buffer or is_flat or _has_lasting_gradients(layout, shards)),
        evaluation=evaluation,
        step=step,
        step_bytes=sum(step.values()),
        host_bytes=host_bytes,
        nvme_bytes=nvme_bytes,
    )


def _count_recreated_gradient_bytes(
    layout: Layout, states: TrainStates, comm_buffers: Buckets
) -> int:
    """Return the bytes of gradients that DDP makes anew after the sum.

    Main gradients have taken over the parameters' gradients by then. (torch 2.13 ``reducer.cpp``,
    ``copy_bucket_to_grad``: a parameter without a gradient gets a clone of its part of the bucket.)
    """
    is_recreated = (
        layout.sharding is Sharding.DDP
        and states.persistent_main_gradients
        and not states.gradients
    )
    return comm_buffers.resident if is_recreated else 0


def _has_lasting_gradients(layout: Layout, shards: Shards) -> bool:
    """Return whether gradients live until their unit's next forward.

    They do so though zero_grad has dropped them. Under ``use_orig_params``, which accelerate's
    launcher sets, the parameters' gradients are views of the flat one, and that one is dropped when
    its unit is gathered (torch 2.13 ``_flat_param.py``, ``_reset_flat_param_grad_info_if_needed``).
    """
    return layout.sharding is Sharding.FSDP1 and shards.gradients > 1


def _collect_resident_parts(
    states: TrainStates, comm_buffers: Buckets, standing_gradients: int
) -> Parts:
    """Return the parts that live from step to step.

    Adapters have a part of their own beside the weights.
    """
    return {
        "weights": states.weights + states.buffers,
        "adapters": states.adapters,
        "master_weights": states.master_weights,
        "optimizer_states": states.optimizer_states,
        "gradients": standing_gradients,
        "communication_buffers": comm_buffers.resident,
    }
