"""Pipeline stages: their layers and micro-batches in flight.

A stage keeps the tensors of the micro-batches in flight (Megatron-LM's schedules.py).
"""

from dataclasses import dataclass
from functools import lru_cache

from service.estimator.model.architecture import Architecture
from service.estimator.model.families.moe.tree import MoeSpec
from service.estimator.values.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLayers:
    """Layers of one chunk of one stage.

    ``dense`` layers, ``sparse`` layers with experts, and whether it is the ``first`` or ``last``
    chunk, with embedding or head.
    """

    dense: int
    sparse: int
    first: bool
    last: bool


Chunks = tuple[StageLayers, ...]
ByStage = tuple[tuple[int, Chunks], ...]
"""Stages, each with its chunks in the order of the model: one, or ``virtual_pipeline_stages`` that
alternate between stages.
"""


def list_stage_chunks(model: Architecture, layout: Layout) -> ByStage:
    """Return the chunks of all stages."""
    return _list_stage_chunks(
        model.num_hidden_layers,
        count_dense_layers(model),
        layout.pipeline_parallel,
        layout.virtual_pipeline_stages,
    )


def list_distinct_stages(model: Architecture, layout: Layout) -> ByStage:
    """Return the first of the stages that have the same layers."""
    return _list_distinct_stages(
        model.num_hidden_layers,
        count_dense_layers(model),
        layout.pipeline_parallel,
        layout.virtual_pipeline_stages,
    )


@lru_cache(maxsize=1024)
def _list_distinct_stages(num_layers: int, leading: int, stages: int, virtual: int) -> ByStage:
    all_stages = _list_stage_chunks(num_layers, leading, stages, virtual)
    return tuple({chunks: (stage, chunks) for stage, chunks in reversed(all_stages)}.values())[::-1]


@lru_cache(maxsize=1024)
def _list_stage_chunks(num_layers: int, leading: int, stages: int, virtual: int) -> ByStage:
    layers_per_chunk = num_layers // (stages * virtual)
    return tuple(
        (stage, _split_stage(stage, layers_per_chunk, leading, stages, virtual))
        for stage in range(stages)
    )


def _split_stage(
    stage: int, layers_per_chunk: int, leading: int, stages: int, virtual: int
) -> Chunks:
    chunks = []
    for position in range(stage, stages * virtual, stages):
        dense = min(max(leading - position * layers_per_chunk, 0), layers_per_chunk)
        ends = position == 0, position == stages * virtual - 1
        chunks.append(
            StageLayers(dense=dense, sparse=layers_per_chunk - dense, first=ends[0], last=ends[1])
        )
    return tuple(chunks)


def count_dense_layers(model: Architecture) -> int:
    """Count the layers at the beginning that have no experts."""
    spec = model.spec
    if isinstance(spec, MoeSpec) and spec.num_experts:
        return min(spec.first_dense_layers, spec.num_hidden_layers)
    return spec.num_hidden_layers


def merge_chunks(chunks: tuple[StageLayers, ...]) -> StageLayers:
    """Return the layers of all chunks of a stage together."""
    return StageLayers(
        dense=sum(chunk.dense for chunk in chunks),
        sparse=sum(chunk.sparse for chunk in chunks),
        first=any(chunk.first for chunk in chunks),
        last=any(chunk.last for chunk in chunks),
    )


def count_in_flight(layout: Layout, stage: int, micro_batches: int) -> tuple[int, ...]:
    """Count the micro-batches in flight on each chunk of a stage.

    These are the micro-batches whose tensors are kept at once, the one that runs included. 1F1B:
    ``min(p - i, m)``. Interleaved: ``2 (p - i - 1) + (v - 1) p`` forwards of chunks before the
    first backward and one more, p micro-batches through a chunk before the next chunk's turn
    (get_pp_rank_microbatches, schedules.py).
    """
    stages, virtual = layout.pipeline_parallel, layout.virtual_pipeline_stages
    if virtual == 1:
        return (min(stages - stage, micro_batches),)
    total = micro_batches * virtual
    num_warmup = 2 * (stages - stage - 1) + (virtual - 1) * stages
    num_forwards = min(num_warmup + 1, total)
    counts = [0] * virtual
    for forward in range(num_forwards):
        counts[forward // stages % virtual] += 1
    return tuple(counts)
