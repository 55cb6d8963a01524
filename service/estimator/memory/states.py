"""Weights, gradients, master copies and optimizer states of one rank (ZeRO, arXiv:1910.02054, section 5)."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.memory.adapter_bases import base_bytes
from service.estimator.memory.image_inputs import idle_names
from service.estimator.memory.optimizers.rules import PAGED_ELEMENTS
from service.estimator.memory.optimizers.table import STEP_COUNT_BYTES, Optimizer, optimizer_named
from service.estimator.memory.optimizers.tensors import TrainedTensor, flattened, row_elements, split_rows, tensors_of
from service.estimator.model.adapters.parameters import factors_of
from service.estimator.model.adapters.stacks import adapter_factors, stacks_of
from service.estimator.model.architecture import Architecture
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import Precision
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Lora, Method, TrainWorkload

OPTIMIZER_STAGE, GRADIENT_STAGE, PARAMETER_STAGE = 1, 2, 3
SUB_GROUP_ELEMENTS = 1_000_000_000
"""Elements that ZeRO-3 steps, and swaps, at once (``sub_group_size``, default 1e9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedParameters:
    """How many parameters are trained and how many only read, in which formats; ``weights`` are the trained tensors."""

    frozen: int
    trained: int
    weights: tuple[tuple[Weight, int], ...]
    precision: Precision
    trained_dtype: DType
    optimizer_dtype: DType
    grad_dtype: DType
    idle: int = 0
    """Elements that could be trained and that nothing reads: they get neither gradients nor states, but master copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """Over how many ranks each part is spread."""

    weights: int
    gradients: int
    optimizer: int

    @classmethod
    def of(cls, layout: Layout) -> "Shards":
        """Return the shards of a layout: a stage spreads its part and those of the stages before it."""
        stage, ranks = layout.zero_stage, layout.shards
        return cls(
            weights=ranks if stage >= PARAMETER_STAGE else 1,
            gradients=ranks if stage >= GRADIENT_STAGE else 1,
            optimizer=ranks if stage >= OPTIMIZER_STAGE else 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainStates:
    """Bytes of one rank that live from step to step, and those that live from backward to the end of the step."""

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


def trained_parameters(model: Architecture, workload: TrainWorkload) -> TrainedParameters:
    """Return what the method trains: everything that is not frozen, or the adapters alone."""
    precision, counts = workload.precision, model.parameter_counts()
    lora = workload.lora
    if lora is not None:
        idle = idle_names(model, workload)
        made = tuple(adapter_weights(model, lora))
        adapters = tuple(pair for pair in made if pair[0].name not in idle) if idle else made
        return TrainedParameters(
            frozen=counts.total,
            idle=sum(weight.numel * count for weight, count in made if weight.name in idle) if idle else 0,
            trained=sum(weight.numel * count for weight, count in adapters),
            weights=adapters,
            precision=precision,
            trained_dtype=lora.dtype,
            optimizer_dtype=lora.dtype,
            grad_dtype=lora.dtype,
        )
    if idle := idle_names(model, workload):
        return _without_idle(model, workload, idle)
    frozen = sum(counts.by_module.get(kind, 0) for kind in workload.frozen)
    return TrainedParameters(
        frozen=frozen,
        trained=counts.total - frozen,
        weights=tuple(pair for pair in counts.tensors if pair[0].kind not in workload.frozen)
        if workload.frozen
        else counts.tensors,
        precision=precision,
        trained_dtype=precision.param_dtype,
        optimizer_dtype=precision.optimizer_dtype,
        grad_dtype=precision.grad_dtype,
    )


def _without_idle(model: Architecture, workload: TrainWorkload, idle: frozenset[str]) -> TrainedParameters:
    """Return what full training steps of a model some of whose weights get no gradient: those have no states either."""
    precision = workload.precision
    stepped = tuple(pair for pair in model.counts.tensors if pair[0].name not in idle and pair[0].kind not in workload.frozen)
    trained = sum(weight.numel * count for weight, count in stepped)
    unread = [pair for pair in model.counts.tensors if pair[0].name in idle - model.never_trained]
    return TrainedParameters(
        frozen=model.counts.total - trained,
        idle=sum(weight.numel * count for weight, count in unread if weight.kind not in workload.frozen),
        trained=trained,
        weights=stepped,
        precision=precision,
        trained_dtype=precision.param_dtype,
        optimizer_dtype=precision.optimizer_dtype,
        grad_dtype=precision.grad_dtype,
    )


def adapter_weights(model: Architecture, lora: Lora) -> Iterator[tuple[Weight, int]]:
    """Yield every adapter tensor with how often it occurs: A is rank x in, B is out x rank."""
    inner = [(layer, count) for block, count in model.blocks for layer in block.linears()]
    stacks = stacks_of(model.family, lora)
    words = stacks.words if stacks is not None else frozenset()
    for block, count in model.blocks if stacks is not None else ():
        for factor in adapter_factors(stacks, block.weights()):
            yield factor, count
    for layer, count in (*inner, *((layer, 1) for layer in model.outer_linears)):
        if layer.target not in words and (lora.targets is None or layer.target in lora.targets):
            for weight in factors_of(layer, lora):
                yield weight, count


def local_elements(trained: TrainedParameters, layout: Layout, shards: int) -> int:
    """Return how many trained elements the rank with the most holds: FSDP2 splits each tensor, ZeRO their joint buffer."""
    if shards > 1 and layout.sharding is Sharding.FSDP2:
        return row_elements(trained.weights, shards)
    return ceil_div(trained.trained, shards)


def local_tensors(trained: TrainedParameters, layout: Layout, shards: int) -> tuple[TrainedTensor, ...]:
    """Return the tensors that one rank's optimizer steps, by shape."""
    if shards == 1:
        return tensors_of(trained.weights)
    if layout.sharding is Sharding.FSDP2:
        return split_rows(tensors_of(trained.weights), shards)
    return flattened(trained.trained, shards)


def stepped_together(trained: TrainedParameters, layout: Layout) -> tuple[tuple[TrainedTensor, ...], ...]:
    """Return the tensors that one rank's optimizer steps, by calls of it: no operator takes lists of split and whole ones.

    transformers gives each kind its own group (5.23 ``trainer.py``, ``create_optimizer``, ``by_mesh``). FSDP2 makes all of them
    tensors of its mesh, and master copies are plain ones.
    """
    tensors = local_tensors(trained, layout, Shards.of(layout).optimizer)
    alike = layout.tensor_parallel == 1 or layout.sharding is Sharding.FSDP2 or trained.precision.master_dtype is not None
    if alike:
        return (tensors,)
    groups = (tuple(tensor for tensor in tensors if tensor.split is split) for split in (True, False))
    return tuple(group for group in groups if group)


def train_states(model: Architecture, workload: TrainWorkload, trained: TrainedParameters, layout: Layout) -> TrainStates:
    """Return the states of one rank."""
    shards = Shards.of(layout)
    precision, full = workload.precision, workload.method is Method.FULL
    optimizer = optimizer_named(workload.optimizer)
    width = trained.trained_dtype.bytes_per_element
    stepped, stored = (local_elements(trained, layout, count) for count in (shards.optimizer, shards.gradients))
    main = precision.main_grad_bytes_per_param if full else 0
    main_bytes = main * (stored if precision.main_grad_persistent else stepped)
    by_rows = layout.sharding is Sharding.FSDP2
    frozen_bytes = (
        _frozen_elements(model, trained, shards.weights, by_rows=by_rows) * precision.param_dtype.bytes_per_element
        if full
        else base_bytes(model, workload, shards.weights, by_rows=by_rows)
    )
    trained_bytes = width * (stored if shards.weights == shards.gradients else trained.trained)
    gradients = stored * trained.grad_dtype.bytes_per_element * (not workload.optimizer_in_backward)
    in_main_buffer = full and precision.main_grad_persistent and precision.main_grad_dtype is precision.grad_dtype
    casts = _partition_gradients(trained, layout, stepped) if full else 0
    states, temporaries, managed = _optimizer_bytes(trained, optimizer, layout, stepped)
    return TrainStates(
        weights=frozen_bytes + (trained_bytes if full else 0),
        adapters=0 if full else trained_bytes + ceil_div(trained.idle * width, shards.weights),
        buffers=model.buffer_bytes_in(precision.param_dtype),
        master_weights=_master_bytes(trained, shards.optimizer, stepped) if full else 0,
        optimizer_states=states,
        gradients=0 if in_main_buffer else gradients,
        persistent_main_gradients=gradients if in_main_buffer else main_bytes * precision.main_grad_persistent,
        step_main_gradients=main_bytes * (not precision.main_grad_persistent) + casts,
        step_temporaries=0 if workload.optimizer_in_backward else temporaries,
        managed_states=managed,
    )


def _master_bytes(trained: TrainedParameters, shards: int, stepped: int) -> int:
    """Return the bytes of the optimizer's own weights: it copies all that it is given, before any has a gradient."""
    master = trained.precision.master_dtype
    return (stepped + ceil_div(trained.idle, shards)) * master.bytes_per_element if master is not None else 0


def _frozen_elements(model: Architecture, trained: TrainedParameters, shards: int, *, by_rows: bool) -> int:
    """Return how many elements that full training leaves as they are the rank with the most holds."""
    if by_rows and shards > 1 and trained.frozen:
        return row_elements(model.counts.tensors, shards) - row_elements(trained.weights, shards)
    return ceil_div(trained.frozen, shards)


def _partition_gradients(trained: TrainedParameters, layout: Layout, stepped: int) -> int:
    """Return the gradients that DeepSpeed casts for its step: of a partition, in stage 3 of one sub-group at a time.

    (deepspeed 0.19 ``stage_1_and_2.py``, ``flatten(averaged_gradients).to(fp32)``; ``stage3.py``, ``sub_group_size``.)
    """
    precision = trained.precision
    master = precision.master_dtype
    if master is None or precision.main_grad_dtype is not None or layout.sharding is not Sharding.DEEPSPEED:
        return 0
    return _elements_at_once(layout, stepped) * master.bytes_per_element * (layout.zero_stage > 0)


def _elements_at_once(layout: Layout, stepped: int) -> int:
    """Return how many elements of a rank are stepped in one call: DeepSpeed's stage 3 goes by sub-groups."""
    by_group = layout.sharding is Sharding.DEEPSPEED and layout.zero_stage == PARAMETER_STAGE
    return min(stepped, SUB_GROUP_ELEMENTS) if by_group else stepped


def _optimizer_bytes(trained: TrainedParameters, optimizer: Optimizer, layout: Layout, stepped: int) -> tuple[int, int, int]:
    """Return the bytes of the states, of the step's temporaries, and of states in managed memory."""
    width = trained.optimizer_dtype.bytes_per_element
    counts = STEP_COUNT_BYTES * sum(count for _, count in trained.weights) if optimizer.step_counts_on_device else 0
    if layout.tensor_parallel == 1 and optimizer.per_element_temporaries is not None and optimizer.num_states is not None:
        at_once = _elements_at_once(layout, stepped)
        return stepped * optimizer.num_states * width + counts, at_once * optimizer.per_element_temporaries * width, 0
    tensors = local_tensors(trained, layout, Shards.of(layout).optimizer)
    temporaries = max(optimizer.step(group, width) for group in stepped_together(trained, layout))
    return optimizer.state_bytes(tensors, width) + counts, temporaries, _managed_bytes(optimizer, tensors)


def _managed_bytes(optimizer: Optimizer, tensors: tuple[TrainedTensor, ...]) -> int:
    large = sum(tensor.numel * tensor.count for tensor in tensors if tensor.numel >= PAGED_ELEMENTS)
    return optimizer.host_bytes_per_element * large


def saved_states(trained: TrainedParameters, optimizer: Optimizer) -> int:
    """Return the bytes of the whole job's optimizer states on disk, wherever they live in memory."""
    width = trained.optimizer_dtype.bytes_per_element
    if optimizer.num_states is not None:
        return trained.trained * optimizer.num_states * width
    tensors = tensors_of(trained.weights)
    return optimizer.state_bytes(tensors, width) + _managed_bytes(optimizer, tensors)
