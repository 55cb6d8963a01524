"""What a training step stands on: states, shards and buffers of one rank, whatever its batch and its sequence.

Nothing here depends on ``micro_batch_size`` or ``sequence_length``, so that one footing serves every question that differs in
them alone.
"""

from dataclasses import dataclass

from service.estimator.memory.fsdp_buffers import Buckets, buckets, gathering
from service.estimator.memory.offloading import offloaded
from service.estimator.memory.phase_peaks import Parts
from service.estimator.memory.states import (
    PARAMETER_STAGE,
    Shards,
    TrainedParameters,
    TrainStates,
    train_states,
    trained_parameters,
)
from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Offload, TrainWorkload

_ON_THE_GPU = Offload()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Footing:
    """One rank's share of a job between its tensors; equal to itself alone, so that looking it up costs nothing.

    ``grad_bytes`` is what an element of a stored gradient costs in backward, 0 where gradients have a place already.
    """

    model: Architecture
    """The rank's share of the model."""
    trained: TrainedParameters
    states: TrainStates
    shards: Shards
    buckets: Buckets
    grad_bytes: int
    gathers: bool
    """Whether parameters are gathered on their way through the model."""
    resident: Parts
    """Bytes that live from step to step and while a micro batch is under way, by part."""
    resident_bytes: int
    steady_bytes: int
    step: Parts
    """Bytes at the optimizer's step, by part."""
    step_bytes: int
    host_bytes: int
    """Bytes of the rank in the host's memory, its activations left out."""
    nvme_bytes: int

    @property
    def loaded_bytes(self) -> int:
        """Weights and buffers, as they are loaded."""
        return self.states.weights + self.states.buffers


def footing_of(model: Architecture, workload: TrainWorkload, layout: Layout) -> Footing:
    """Return the footing of one rank's share of a model."""
    trained = trained_parameters(model, workload)
    states, host_bytes, nvme_bytes = train_states(model, workload, trained, layout), 0, 0
    offloads = workload.offload != _ON_THE_GPU
    if offloads or states.managed_states:
        states, host = offloaded(states, workload, layout, trained)
        host_bytes, nvme_bytes = host.total, host.nvme
    grad_bytes, shards = trained.grad_dtype.bytes_per_element, Shards.of(layout)
    param_bytes = trained.trained_dtype.bytes_per_element
    held = buckets(layout, workload.precision, trained=trained.trained, param_bytes=param_bytes)
    keeps_buffer = layout.sharding is Sharding.DEEPSPEED and layout.zero_stage == PARAMETER_STAGE
    accumulates = workload.gradient_accumulation_steps > 1 or keeps_buffer
    resident = _resident(states, held, states.persistent_main_gradients + states.gradients * accumulates)
    step = resident | {
        "gradients": states.gradients
        + states.persistent_main_gradients
        + states.step_main_gradients
        + _handed_back(layout, states, held),
        "temporaries": states.step_temporaries,
    }
    return Footing(
        model=model,
        trained=trained,
        states=states,
        shards=shards,
        buckets=held,
        grad_bytes=0 if keeps_buffer or (offloads and not states.gradients) else grad_bytes,
        gathers=gathering(workload.precision, layout) is not None,
        resident=resident,
        resident_bytes=sum(resident.values()),
        steady_bytes=states.resident + held.resident + states.gradients * (keeps_buffer or _outlive_the_step(layout, shards)),
        step=step,
        step_bytes=sum(step.values()),
        host_bytes=host_bytes,
        nvme_bytes=nvme_bytes,
    )


def _handed_back(layout: Layout, states: TrainStates, held: Buckets) -> int:
    """Return the gradients that DDP makes anew after the sum, where main gradients have taken theirs over by then.

    (torch 2.13 ``reducer.cpp``, ``copy_bucket_to_grad``: what has no gradient gets a clone of its part of the bucket.)
    """
    moved = layout.sharding is Sharding.DDP and states.persistent_main_gradients and not states.gradients
    return held.resident if moved else 0


def _outlive_the_step(layout: Layout, shards: Shards) -> bool:
    """Tell whether gradients are there until their unit's next forward, though zero_grad has dropped them.

    Under ``use_orig_params``, which accelerate's launcher sets, the parameters' gradients are views of the flat one, and that
    one is dropped when its unit is gathered (torch 2.13 ``_flat_param.py``, ``_reset_flat_param_grad_info_if_needed``).
    """
    return layout.sharding is Sharding.FSDP1 and shards.gradients > 1


def _resident(states: TrainStates, held: Buckets, standing_gradients: int) -> Parts:
    """Return the parts that live from step to step, adapters with the weights' own name."""
    return {
        "weights": states.weights + states.buffers,
        "adapters": states.adapters,
        "master_weights": states.master_weights,
        "optimizer_states": states.optimizer_states,
        "gradients": standing_gradients,
        "communication_buffers": held.resident,
    }
