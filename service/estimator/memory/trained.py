"""Trained parameters and the ranks that shard them."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.memory.head_copies import NO_HEAD, SavedHead, copy_head
from service.estimator.memory.image_inputs import get_idle_names
from service.estimator.model.adapters.parameters import is_adapted, iter_linear_factors
from service.estimator.model.adapters.stacks import build_stack_adapters, iter_stack_factors
from service.estimator.model.architecture import Architecture
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import Precision
from service.estimator.values.workload import Lora, TrainWorkload

OPTIMIZER_STAGE, GRADIENT_STAGE, PARAMETER_STAGE = 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedParameters:
    """Numbers of trained and of frozen parameters, with their formats.

    ``weights`` are the trained tensors.
    """

    frozen: int
    trained: int
    weights: tuple[tuple[Weight, int], ...]
    precision: Precision
    trained_dtype: DType
    optimizer_dtype: DType
    grad_dtype: DType
    idle: int = 0
    """Trainable elements that nothing reads: they get neither gradients nor states, but master
    copies. Such are a pooler's.
    """
    saved_head: SavedHead = NO_HEAD
    """Tensors beside ``weights`` that are trained in another format than these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """Number of ranks that each part is sharded over."""

    weights: int
    gradients: int
    optimizer: int

    @classmethod
    def from_layout(cls, layout: Layout, precision: Precision | None = None) -> "Shards":
        """Return the shards of a layout.

        A stage shards its part and those of the stages before it. DeepSpeed's own optimizer of bf16
        shards without a stage.
        """
        stage, ranks = layout.zero_stage, layout.shards
        shards_states = stage >= OPTIMIZER_STAGE or (
            precision is not None and has_flat_gradients(layout, precision)
        )
        return cls(
            weights=ranks if stage >= PARAMETER_STAGE else 1,
            gradients=ranks if stage >= GRADIENT_STAGE else 1,
            optimizer=ranks if shards_states else 1,
        )


def has_flat_gradients(layout: Layout, precision: Precision) -> bool:
    """Return whether DeepSpeed adds gradients into a flat one.

    Without ZeRO it adds those in bf16 into one in fp32 of all weights, beside a rank's part of
    masters and states; gradients in bf16 are dropped by the next backward (deepspeed 0.19
    ``runtime/bf16_optimizer.py``).
    """
    return (
        layout.sharding is Sharding.DEEPSPEED
        and layout.zero_stage == 0
        and precision.master_dtype is not None
        and precision.main_grad_persistent
    )


def select_trained_parameters(model: Architecture, workload: TrainWorkload) -> TrainedParameters:
    """Return the parameters that the method trains.

    They are all that are not frozen, or the adapters alone.
    """
    precision, counts = workload.precision, model.parameter_counts()
    if workload.lora is not None:
        return _select_adapters(model, workload, workload.lora)
    if idle := get_idle_names(model, workload):
        return _exclude_idle(model, workload, idle)
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


def _select_adapters(model: Architecture, workload: TrainWorkload, lora: Lora) -> TrainedParameters:
    """Return the adapters, with what is trained in full beside them."""
    idle, head = get_idle_names(model, workload), copy_head(model, workload)
    joins = head.dtype is lora.dtype
    factors = tuple(iter_adapter_weights(model, lora))
    adapters = tuple(pair for pair in factors if pair[0].name not in idle) if idle else factors
    stepped = (*adapters, *head.weights) if joins else adapters
    return TrainedParameters(
        frozen=model.parameter_counts().total,
        idle=sum(weight.numel * count for weight, count in factors if weight.name in idle),
        trained=sum(weight.numel * count for weight, count in stepped),
        weights=stepped,
        precision=workload.precision,
        trained_dtype=lora.dtype,
        optimizer_dtype=lora.dtype,
        grad_dtype=lora.dtype,
        saved_head=NO_HEAD if joins else head,
    )


def _exclude_idle(
    model: Architecture, workload: TrainWorkload, idle: frozenset[str]
) -> TrainedParameters:
    """Return the trained parameters of a model with idle weights.

    Idle weights get no gradient, and have no states either; the rest is that of full training.
    """
    precision = workload.precision
    stepped = tuple(
        pair
        for pair in model.counts.tensors
        if pair[0].name not in idle and pair[0].kind not in workload.frozen
    )
    trained = sum(weight.numel * count for weight, count in stepped)
    never_read = idle - model.fixed
    unread = [pair for pair in model.counts.tensors if pair[0].name in never_read]
    return TrainedParameters(
        frozen=model.counts.total - trained,
        idle=sum(
            weight.numel * count for weight, count in unread if weight.kind not in workload.frozen
        ),
        trained=trained,
        weights=stepped,
        precision=precision,
        trained_dtype=precision.param_dtype,
        optimizer_dtype=precision.optimizer_dtype,
        grad_dtype=precision.grad_dtype,
    )


def iter_adapter_weights(model: Architecture, lora: Lora) -> Iterator[tuple[Weight, int]]:
    """Yield every adapter tensor with its number of occurrences.

    A is rank x in, B is out x rank.
    """
    inner = [(layer, count) for block, count in model.blocks for layer in block.linears()]
    stacks = build_stack_adapters(model.family, lora)
    stacked_targets = stacks.merged_names if stacks is not None else frozenset()
    for block, count in model.blocks if stacks is not None else ():
        for factor in iter_stack_factors(stacks, block.weights()):
            yield factor, count
    for layer, count in (*inner, *((layer, 1) for layer in model.outer_linears)):
        if is_adapted(layer, lora, stacked_targets):
            for weight in iter_linear_factors(layer, lora):
                yield weight, count
