"""Weights, gradients, master copies and optimizer states of one rank.

Source: ZeRO, arXiv:1910.02054, section 5.
"""

from dataclasses import dataclass

from service.estimator.memory.adapter_bases import base_bytes, count_shared_buffers
from service.estimator.memory.head_copies import SavedHead
from service.estimator.memory.optimizers.optimizer import STEP_COUNT_BYTES, Optimizer
from service.estimator.memory.optimizers.tensors import (
    TrainedTensor,
    count_row_elements,
    flatten,
    list_tensors,
    split_rows,
)
from service.estimator.memory.setup import TrainSetup
from service.estimator.memory.trained import PARAMETER_STAGE, Shards, TrainedParameters
from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Reference
from service.estimator.values.optimizers import COMPRESSING
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Method, TrainWorkload

SUB_GROUP_ELEMENTS = 1_000_000_000
"""Elements that ZeRO-3 steps, and swaps, at once (``sub_group_size``, default 1e9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainStates:
    """Bytes of one rank's states.

    Some live from step to step, some from backward to the end of the step.
    """

    weights: int
    adapters: int
    buffers: int
    master_weights: int
    optimizer_states: int
    gradients: int
    persistent_main_gradients: int
    step_main_gradients: int
    step_temporaries: int
    managed_states: int = 0
    """Optimizer states in managed memory (paged optimizers), which the allocator does not count."""

    @property
    def resident(self) -> int:
        """Bytes between steps, after ``zero_grad(set_to_none=True)``."""
        return (
            self.weights
            + self.adapters
            + self.buffers
            + self.master_weights
            + self.optimizer_states
            + self.persistent_main_gradients
        )


def count_models(workload: TrainWorkload) -> int:
    """Return the number of models: DPO's policy may have a reference."""
    return 2 if workload.reference is Reference.MODEL else 1


def count_local_elements(trained: TrainedParameters, layout: Layout, shards: int) -> int:
    """Return the trained elements of the rank with the most of them.

    FSDP2 splits each tensor, ZeRO their joint buffer.
    """
    if shards > 1 and layout.sharding is Sharding.FSDP2:
        return count_row_elements(trained.weights, shards)
    return ceil_div(trained.trained, shards)


def list_local_tensors(
    trained: TrainedParameters, layout: Layout, shards: int
) -> tuple[TrainedTensor, ...]:
    """Return the tensors that one rank's optimizer steps, by shape."""
    if shards == 1:
        return list_tensors(trained.weights)
    if layout.sharding is Sharding.FSDP2:
        return split_rows(list_tensors(trained.weights), shards)
    return flatten(trained.trained, shards)


def group_stepped_tensors(
    trained: TrainedParameters, layout: Layout
) -> tuple[tuple[TrainedTensor, ...], ...]:
    """Return the tensors of each call of one rank's optimizer.

    No operator takes lists of split and whole tensors. transformers gives each kind its own group
    (5.23 ``trainer.py``, ``create_optimizer``, ``by_mesh``). FSDP2 makes all of them tensors of its
    mesh, and master copies are plain ones.
    """
    shards = Shards.from_layout(layout, trained.precision)
    tensors = list_local_tensors(trained, layout, shards.optimizer)
    is_uniform = (
        layout.tensor_parallel == 1
        or layout.sharding is Sharding.FSDP2
        or trained.precision.master_dtype is not None
    )
    if is_uniform:
        return (tensors,)
    groups = (
        tuple(tensor for tensor in tensors if tensor.split is split) for split in (True, False)
    )
    return tuple(group for group in groups if group)


def compute_train_states(setup: TrainSetup) -> TrainStates:
    """Return the states of one rank."""
    model, workload, layout = setup.model, setup.workload, setup.layout
    trained, shards = setup.trained, setup.shards
    precision, full = workload.precision, workload.method is Method.FULL
    width = trained.trained_dtype.bytes_per_element
    stepped, stored = (
        count_local_elements(trained, layout, count)
        for count in (shards.optimizer, shards.gradients)
    )
    main = precision.main_grad_bytes_per_param if full else 0
    main_bytes = main * (stored if precision.main_grad_persistent else stepped)
    by_rows = layout.sharding is Sharding.FSDP2
    frozen_bytes = (
        _count_frozen_elements(model, trained, shards.weights, by_rows=by_rows)
        * precision.param_dtype.bytes_per_element
        if full
        else base_bytes(model, setup.base_weights, shards.weights, by_rows=by_rows)
    )
    trained_bytes = width * (stored if shards.weights == shards.gradients else trained.trained)
    gradients = (
        stored * trained.grad_dtype.bytes_per_element
        + trained.saved_head.count_local_bytes(shards.gradients, by_rows=by_rows)
    ) * (not workload.optimizer_in_backward)
    in_main_buffer = (
        full
        and precision.main_grad_persistent
        and precision.main_grad_dtype is precision.grad_dtype
    )
    is_compressing = layout.zero_stage == 0 and workload.optimizer in COMPRESSING
    casts = (
        _count_partition_gradients(trained, layout, stepped) if full and not is_compressing else 0
    )
    states, temporaries, managed = _count_optimizer_bytes(setup, stepped)
    return TrainStates(
        weights=(frozen_bytes + (trained_bytes if full else 0)) * count_models(workload),
        adapters=0
        if full
        else trained_bytes
        + ceil_div(trained.idle * width, shards.weights)
        + trained.saved_head.count_local_bytes(shards.weights, by_rows=by_rows),
        buffers=model.buffer_bytes_in(precision.param_dtype) * count_models(workload)
        + count_shared_buffers(model, workload, setup.base_weights.scheme),
        master_weights=_count_master_bytes(trained, shards.optimizer, stepped) if full else 0,
        optimizer_states=states,
        gradients=0 if in_main_buffer else gradients,
        persistent_main_gradients=gradients
        if in_main_buffer
        else main_bytes * precision.main_grad_persistent,
        step_main_gradients=main_bytes * (not precision.main_grad_persistent) + casts,
        step_temporaries=0 if workload.optimizer_in_backward else temporaries,
        managed_states=managed,
    )


def _count_master_bytes(trained: TrainedParameters, shards: int, stepped: int) -> int:
    """Return the bytes of the optimizer's own weights.

    It copies all parameters that it gets, before any has a gradient.
    """
    master = trained.precision.master_dtype
    return (
        (stepped + ceil_div(trained.idle, shards)) * master.bytes_per_element
        if master is not None
        else 0
    )


def _count_frozen_elements(
    model: Architecture, trained: TrainedParameters, shards: int, *, by_rows: bool
) -> int:
    """Return the frozen elements of the rank with the most of them.

    Full training leaves them as they are.
    """
    if by_rows and shards > 1 and trained.frozen:
        return count_row_elements(model.counts.tensors, shards) - count_row_elements(
            trained.weights, shards
        )
    return ceil_div(trained.frozen, shards)


def _count_partition_gradients(trained: TrainedParameters, layout: Layout, stepped: int) -> int:
    """Return the bytes of gradients that DeepSpeed casts for its step.

    They are those of a partition, in stage 3 of one sub-group at a time, and without ZeRO of all
    weights. (deepspeed 0.19 ``stage_1_and_2.py``, ``flatten(averaged_gradients).to(fp32)``;
    ``stage3.py``, ``sub_group_size``; ``fp16/fused_optimizer.py``, ``grads_groups_flat``. The
    optimizers that exchange bits have it in their own step.)
    """
    precision = trained.precision
    master = precision.master_dtype
    if (
        master is None
        or precision.main_grad_dtype is not None
        or layout.sharding is not Sharding.DEEPSPEED
    ):
        return 0
    return _count_elements_at_once(layout, stepped) * master.bytes_per_element


def _count_elements_at_once(layout: Layout, stepped: int) -> int:
    """Return the elements of a rank that one call steps.

    DeepSpeed's stage 3 goes by sub-groups.
    """
    by_group = layout.sharding is Sharding.DEEPSPEED and layout.zero_stage == PARAMETER_STAGE
    return min(stepped, SUB_GROUP_ELEMENTS) if by_group else stepped


def _count_optimizer_bytes(setup: TrainSetup, stepped: int) -> tuple[int, int, int]:
    """Return the bytes of states, temporaries and managed states.

    Temporaries are those of the step; managed states lie in managed memory. No operator takes lists
    of two formats: a head of another format than the adapters is stepped after them, while names
    still hold their lists of temporaries (torch 2.13 ``_multi_tensor_adamw``).
    """
    states, temporaries, managed = _count_joint_optimizer_bytes(setup, stepped)
    head, optimizer = setup.trained.saved_head, setup.optimizer
    if not head.weights:
        return states, temporaries, managed
    shards, by_rows = setup.shards.optimizer, setup.layout.sharding is Sharding.FSDP2
    tensors, width = head.list_local_tensors(shards, by_rows=by_rows), head.dtype.bytes_per_element
    own = optimizer.step_bytes(tensors, width)
    return (
        states + sum(list_head_states(head, optimizer, shards, by_rows=by_rows)),
        temporaries + own if optimizer.per_element_temporaries else max(temporaries, own),
        managed + optimizer.managed_bytes(tensors, width),
    )


def list_head_states(
    head: SavedHead, optimizer: Optimizer, shards: int = 1, *, by_rows: bool = False
) -> list[int]:
    """Return the bytes of each state of a head beside adapters."""
    width, counts = head.dtype.bytes_per_element, optimizer.step_counts_on_device
    parts = 1 if by_rows else shards
    return [
        size
        for tensor in head.list_local_tensors(shards, by_rows=by_rows)
        for size in (
            *[STEP_COUNT_BYTES] * counts,
            *(ceil_div(state, parts) for state in optimizer.states(tensor, width).device),
        )
    ]


def _count_joint_optimizer_bytes(setup: TrainSetup, stepped: int) -> tuple[int, int, int]:
    """Return the bytes of states, temporaries and managed states of one format."""
    trained, optimizer, layout = setup.trained, setup.optimizer, setup.layout
    width = trained.optimizer_dtype.bytes_per_element
    counts = (
        STEP_COUNT_BYTES * sum(count for _, count in trained.weights)
        if optimizer.step_counts_on_device
        else 0
    )
    if (
        layout.tensor_parallel == 1
        and optimizer.per_element_temporaries is not None
        and optimizer.num_states is not None
    ):
        at_once = _count_elements_at_once(layout, stepped)
        return (
            stepped * optimizer.num_states * width + counts,
            at_once * optimizer.per_element_temporaries * width,
            0,
        )
    tensors = list_local_tensors(trained, layout, setup.shards.optimizer)
    temporaries = max(
        optimizer.step_bytes(group, width) for group in group_stepped_tensors(trained, layout)
    )
    return (
        optimizer.state_bytes(tensors, width) + counts,
        temporaries,
        optimizer.managed_bytes(tensors, width),
    )


def count_saved_state_bytes(trained: TrainedParameters, optimizer: Optimizer) -> int:
    """Return the bytes of the whole job's optimizer states on disk.

    It does not matter where they live in memory.
    """
    width, head = trained.optimizer_dtype.bytes_per_element, trained.saved_head
    if optimizer.num_states is not None:
        return (trained.trained * width + head.num_bytes) * optimizer.num_states
    tensors = list_tensors(trained.weights)
    return optimizer.saved_bytes(tensors, width) + sum(list_head_states(head, optimizer))
