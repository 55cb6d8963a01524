"""Single steps towards less memory per GPU, by sharing or more GPUs."""

from collections.abc import Iterator
from dataclasses import replace

from service.estimator.backends.registry import get_backend
from service.estimator.values.layout import FULLY_SHARDED, ContextMethod, Layout, Sharding
from service.estimator.values.pipeline import EVEN
from service.estimator.values.workload import Engine, Framework, ServeWorkload, TrainWorkload
from service.planner.fit.evaluator import Config

MAX_DATA_PARALLEL = 1024
MAX_PIPELINE_PARALLEL = 16
MAX_CONTEXT_PARALLEL = 64


def raise_zero_stage(config: Config) -> Iterator[Config]:
    """Raise the ZeRO stage over the existing data-parallel ranks.

    Megatron's distributed optimizer is stage 1.
    """
    workload, layout = config
    if layout.sharding is Sharding.MEGATRON and layout.shards > 1 and layout.zero_stage == 0:
        yield workload, replace(layout, zero_stage=1)
    if isinstance(workload, ServeWorkload) or layout.sharding not in {
        Sharding.DDP,
        Sharding.DEEPSPEED,
    }:
        return
    if layout.shards > 1:
        for stage in range(layout.zero_stage + 1, 4):
            yield workload, replace(layout, zero_stage=stage, sharding=Sharding.DEEPSPEED)


def add_data_parallel_ranks(config: Config) -> Iterator[Config]:
    """Shard all states over twice the data-parallel ranks, repeatedly."""
    workload, layout = config
    if isinstance(workload, ServeWorkload):
        return
    sharded = _shard_fully(workload, layout)
    ranks = layout.data_parallel * 2
    while ranks <= MAX_DATA_PARALLEL:
        yield workload, replace(sharded, data_parallel=ranks)
        ranks *= 2


def _shard_fully(workload: TrainWorkload, layout: Layout) -> Layout:
    if workload.framework is Framework.MEGATRON:
        return replace(layout, zero_stage=max(layout.zero_stage, 1), sharding=Sharding.MEGATRON)
    if workload.framework is Framework.TORCHTITAN or layout.sharding in FULLY_SHARDED:
        return replace(
            layout,
            zero_stage=3,
            sharding=layout.sharding if layout.sharding in FULLY_SHARDED else Sharding.FSDP2,
        )
    return replace(layout, zero_stage=3, sharding=Sharding.DEEPSPEED)


def share_sequences(config: Config) -> Iterator[Config]:
    """Share every sequence among twice the ranks, repeatedly.

    transformers passes keys and values on (FSDP2), or exchanges heads (DeepSpeed).
    """
    workload, layout = config
    if isinstance(workload, ServeWorkload):
        return
    match workload.framework, layout.sharding:
        case Framework.MEGATRON, _:
            shared = replace(layout, sharding=Sharding.MEGATRON)
        case Framework.TRANSFORMERS, Sharding.DEEPSPEED:
            shared = replace(layout, context_parallel_method=ContextMethod.ULYSSES)
        case _:
            shared = replace(layout, zero_stage=3, sharding=Sharding.FSDP2)
    ranks = layout.context_parallel * 2
    while ranks <= MAX_CONTEXT_PARALLEL:
        yield workload, replace(shared, context_parallel=ranks)
        ranks *= 2


def add_pipeline_stages(config: Config) -> Iterator[Config]:
    """Spread the layers over twice the pipeline stages, repeatedly.

    They are Megatron's, or those of a served replica.
    """
    match config:
        case (
            TrainWorkload(framework=Framework.MEGATRON) as workload,
            Layout(pipeline_split=stages_split) as layout,
        ) if stages_split == EVEN:
            split = replace(layout, sharding=Sharding.MEGATRON)
        case (ServeWorkload(engine=engine) as workload, layout) if _splits_replicas(engine):
            split = layout
        case _:
            return
    stages = layout.pipeline_parallel * 2
    while stages <= MAX_PIPELINE_PARALLEL:
        yield workload, replace(split, pipeline_parallel=stages)
        stages *= 2


def split_replica(config: Config) -> Iterator[Config]:
    """Double the tensor-parallel ranks repeatedly, within a node.

    They split a replica, or Megatron's layers.
    """
    match config:
        case (ServeWorkload(engine=engine), _) if not _splits_replicas(engine):
            return
        case (ServeWorkload() as workload, layout):
            pipeline_ranks, split = layout.pipeline_parallel, layout
        case (TrainWorkload(framework=Framework.MEGATRON) as workload, layout):
            pipeline_ranks, split = 1, replace(layout, sharding=Sharding.MEGATRON)
        case _:
            return
    ranks, together = layout.tensor_parallel * 2, isinstance(workload, TrainWorkload)
    while ranks * pipeline_ranks <= layout.gpus_per_node:
        yield (
            workload,
            replace(
                split, tensor_parallel=ranks, sequence_parallel=split.sequence_parallel or together
            ),
        )
        ranks *= 2


def _splits_replicas(engine: Engine) -> bool:
    return get_backend(engine).splits_replicas
