"""Weights, gradients, master copies and optimizer states of one rank (ZeRO, arXiv:1910.02054, section 5)."""

from dataclasses import dataclass

from service.estimator.architecture import Architecture
from service.estimator.dtypes import DType
from service.estimator.layout import Layout
from service.estimator.optimizers import STEP_COUNT_BYTES, Optimizer, StepTemporaries, optimizer_named
from service.estimator.precision import Precision
from service.estimator.units import ceil_div
from service.estimator.workload import Lora, Method, TrainWorkload

OPTIMIZER_STAGE, GRADIENT_STAGE, PARAMETER_STAGE = 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedParameters:
    """How many parameters are trained and how many only read, in which formats."""

    frozen: int
    trained: int
    num_trained_tensors: int
    largest_trained: int
    precision: Precision
    trained_dtype: DType
    optimizer_dtype: DType
    grad_dtype: DType


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
    """Return what the method trains: everything, or the adapters alone."""
    precision, counts = workload.precision, model.parameter_counts()
    if workload.lora is None:
        return TrainedParameters(
            frozen=0,
            trained=counts.total,
            num_trained_tensors=counts.num_tensors,
            largest_trained=counts.largest_tensor,
            precision=precision,
            trained_dtype=precision.param_dtype,
            optimizer_dtype=precision.optimizer_dtype,
            grad_dtype=precision.grad_dtype,
        )
    lora = workload.lora
    sizes = adapter_sizes(model, lora)
    return TrainedParameters(
        frozen=counts.total,
        trained=sum(size * count for size, count in sizes),
        num_trained_tensors=sum(count for _, count in sizes),
        largest_trained=max(size for size, _ in sizes),
        precision=precision,
        trained_dtype=lora.dtype,
        optimizer_dtype=lora.dtype,
        grad_dtype=lora.dtype,
    )


def adapter_sizes(model: Architecture, lora: Lora) -> list[tuple[int, int]]:
    """Return (elements, count) of every adapter tensor: A is rank x in, B is out x rank."""
    inner = [(layer, count) for block, count in model.blocks for layer in block.linears()]
    return [
        (lora.rank * features, count)
        for layer, count in (*inner, *((layer, 1) for layer in model.outer_linears))
        if lora.targets is None or layer.target in lora.targets
        for features in (layer.in_features, layer.out_features)
    ]


def train_states(model: Architecture, workload: TrainWorkload, trained: TrainedParameters, layout: Layout) -> TrainStates:
    """Return the states of one rank."""
    shards = Shards.of(layout)
    precision, full = workload.precision, workload.method is Method.FULL
    optimizer = optimizer_named(workload.optimizer)
    width = trained.trained_dtype.bytes_per_element
    main = precision.main_grad_bytes_per_param if full else 0
    main_shards = shards.gradients if precision.main_grad_persistent else shards.optimizer
    main_bytes = ceil_div(trained.trained * main, main_shards)
    frozen_bytes = trained.frozen * precision.param_dtype.bytes_per_element
    gradients = ceil_div(trained.trained * trained.grad_dtype.bytes_per_element, shards.gradients)
    in_main_buffer = full and precision.main_grad_persistent and precision.main_grad_dtype is precision.grad_dtype
    return TrainStates(
        weights=ceil_div(frozen_bytes + (trained.trained * width if full else 0), shards.weights),
        adapters=0 if full else ceil_div(trained.trained * width, shards.weights),
        buffers=model.buffer_bytes_in(precision.param_dtype),
        master_weights=_master_bytes(trained, shards) if full else 0,
        optimizer_states=_optimizer_bytes(trained, optimizer, shards),
        gradients=0 if in_main_buffer else gradients,
        persistent_main_gradients=gradients if in_main_buffer else main_bytes * precision.main_grad_persistent,
        step_main_gradients=main_bytes * (not precision.main_grad_persistent),
        step_temporaries=_step_temporaries(trained, optimizer, shards),
    )


def _master_bytes(trained: TrainedParameters, shards: Shards) -> int:
    dtype = trained.precision.master_dtype
    return ceil_div(trained.trained * dtype.bytes_per_element, shards.optimizer) if dtype is not None else 0


def _optimizer_bytes(trained: TrainedParameters, optimizer: Optimizer, shards: Shards) -> int:
    states = ceil_div(trained.trained * optimizer.num_states * trained.optimizer_dtype.bytes_per_element, shards.optimizer)
    counts = STEP_COUNT_BYTES * trained.num_trained_tensors if optimizer.step_counts_on_device else 0
    return states + counts


def _step_temporaries(trained: TrainedParameters, optimizer: Optimizer, shards: Shards) -> int:
    width = trained.optimizer_dtype.bytes_per_element
    if optimizer.temporaries is StepTemporaries.ONE_OF_ALL:
        return ceil_div(trained.trained * width, shards.optimizer)
    if optimizer.temporaries is StepTemporaries.TWO_OF_LARGEST:
        return 2 * ceil_div(trained.largest_trained * width, shards.optimizer)
    return 0
