"""Training jobs, resolved but for batch and sequence."""

from dataclasses import dataclass, replace

from service.estimator.memory.adapter_bases import BaseWeights, resolve_base_weights
from service.estimator.memory.fsdp_buffers import resolve_gathering
from service.estimator.memory.optimizers.optimizer import Optimizer
from service.estimator.memory.optimizers.table import resolve_optimizer
from service.estimator.memory.trained import Shards, TrainedParameters, select_trained_parameters
from service.estimator.model.architecture import Architecture
from service.estimator.model.library_versions import parse_transformers_release
from service.estimator.model.weights.tensors import count_padded_elements
from service.estimator.tape.units import FsdpConfig, ShardPadding
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Lora, OffloadTarget, TrainWorkload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainSetup:
    """One rank of a training job, for any batch and any sequence.

    It is equal to itself alone, so that looking it up costs nothing.
    """

    model: Architecture
    """The rank's shard of the model."""
    workload: TrainWorkload
    """The job, with the batch and the sequence of whichever question came first."""
    layout: Layout
    optimizer: Optimizer
    base_weights: BaseWeights
    shards: Shards
    trained: TrainedParameters
    gathering: FsdpConfig | None
    """Gathering of sharded parameters; None where every rank has them all."""
    release: tuple[int, int] | None
    """Release of transformers; None is the newest that was read."""


def resolve_setup(model: Architecture, workload: TrainWorkload, layout: Layout) -> TrainSetup:
    """Return the setup of one rank's shard of a model."""
    gathering = resolve_gathering(
        workload.precision,
        layout,
        offloads=workload.offload.parameters is not OffloadTarget.NONE,
        adapters=workload.lora.dtype if workload.lora is not None else None,
        reentrant=workload.reentrant_checkpointing,
    )
    return TrainSetup(
        model=model,
        workload=workload,
        layout=layout,
        optimizer=resolve_optimizer(workload, layout),
        base_weights=resolve_base_weights(model, workload, layout),
        shards=Shards.from_layout(layout, workload.precision),
        trained=select_trained_parameters(model, workload),
        gathering=None
        if gathering is None
        else _add_padding(gathering, model, workload.lora, layout),
        release=parse_transformers_release(workload.framework_version),
    )


def _add_padding(
    gathering: FsdpConfig, model: Architecture, lora: Lora | None, layout: Layout
) -> FsdpConfig:
    """Return the gathering with the padding of FSDP2's uneven shards.

    Layouts without any have one recording.
    """
    ranks = layout.shards
    if layout.sharding is not Sharding.FSDP2 or ranks == 1:
        return gathering
    rows = {weight.shape[0] for weight, _ in model.counts.tensors}
    if lora is not None:
        rows.add(lora.rank)
    if not any(count % ranks for count in rows):
        return gathering
    counts, blocks = model.counts, [[*block.weights()] for block, _ in model.blocks]
    block_elements = sum(
        count_padded_elements(block, ranks) * count
        for block, (_, count) in zip(blocks, model.blocks, strict=True)
    )
    total_elements = sum(
        count_padded_elements([weight], ranks) * count for weight, count in counts.tensors
    )
    block_elements += count_padded_elements(model.tower_layer_weights, ranks)
    padding = ShardPadding(
        root=total_elements - block_elements - model.root_elements,
        head=count_padded_elements(model.head_unit_weights, ranks) - model.head_unit_elements,
    )
    return replace(gathering, uneven_ranks=ranks, padding=padding)
