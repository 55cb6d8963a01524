"""Pipeline stages: which layers each holds, and how many micro-batches' tensors it keeps (Megatron-LM's schedules.py)."""

from dataclasses import dataclass
from functools import lru_cache

from service.estimator.model.architecture import Architecture
from service.estimator.model.families.moe.tree import MoeSpec
from service.estimator.values.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLayers:
    """The layers of one chunk of one stage: how many dense, how many with experts, and what stands around them."""

    dense: int
    sparse: int
    first: bool
    last: bool


Chunks = tuple[StageLayers, ...]
ByStage = tuple[tuple[int, Chunks], ...]
"""Stages, each with its chunks in the order of the model: one, or ``virtual_pipeline_stages`` that alternate between stages."""


def chunks_of(model: Architecture, layout: Layout, stage: int) -> Chunks:
    """Return one stage's chunks."""
    return chunks_by_stage(model, layout)[stage][1]


def chunks_by_stage(model: Architecture, layout: Layout) -> ByStage:
    """Return all stages."""
    return _chunks(model.num_hidden_layers, dense_layers(model), layout.pipeline_parallel, layout.virtual_pipeline_stages)


def first_of_alike(model: Architecture, layout: Layout) -> ByStage:
    """Return the first of the stages that have the same layers."""
    return _first_of_alike(
        model.num_hidden_layers, dense_layers(model), layout.pipeline_parallel, layout.virtual_pipeline_stages
    )


@lru_cache(maxsize=1024)
def _first_of_alike(num_layers: int, leading: int, stages: int, virtual: int) -> ByStage:
    listed = _chunks(num_layers, leading, stages, virtual)
    return tuple({chunks: (stage, chunks) for stage, chunks in reversed(listed)}.values())[::-1]


@lru_cache(maxsize=1024)
def _chunks(num_layers: int, leading: int, stages: int, virtual: int) -> ByStage:
    each = num_layers // (stages * virtual)
    return tuple((stage, _of_stage(stage, each, leading, stages, virtual)) for stage in range(stages))


def _of_stage(stage: int, each: int, leading: int, stages: int, virtual: int) -> Chunks:
    chunks = []
    for position in range(stage, stages * virtual, stages):
        dense = min(max(leading - position * each, 0), each)
        ends = position == 0, position == stages * virtual - 1
        chunks.append(StageLayers(dense=dense, sparse=each - dense, first=ends[0], last=ends[1]))
    return tuple(chunks)


def dense_layers(model: Architecture) -> int:
    """Return how many layers at the beginning have no experts."""
    spec = model.spec
    if isinstance(spec, MoeSpec) and spec.num_experts:
        return min(spec.first_dense_layers, spec.num_hidden_layers)
    return spec.num_hidden_layers


def has_experts(model: Architecture) -> bool:
    """Tell whether any layer has experts."""
    return dense_layers(model) < model.num_hidden_layers


def joined(chunks: tuple[StageLayers, ...]) -> StageLayers:
    """Return all that a stage holds."""
    return StageLayers(
        dense=sum(chunk.dense for chunk in chunks),
        sparse=sum(chunk.sparse for chunk in chunks),
        first=any(chunk.first for chunk in chunks),
        last=any(chunk.last for chunk in chunks),
    )


def in_flight(layout: Layout, stage: int, micro_batches: int) -> tuple[int, ...]:
    """Return, for each chunk of a stage, the micro-batches whose tensors are kept at once, the one that runs included.

    1F1B: ``min(p - i, m)``. Interleaved: ``2 (p - i - 1) + (v - 1) p`` forwards of chunks before the first backward and one
    more, p micro-batches through a chunk before the next chunk's turn (get_pp_rank_microbatches, schedules.py).
    """
    stages, virtual = layout.pipeline_parallel, layout.virtual_pipeline_stages
    if virtual == 1:
        return (min(stages - stage, micro_batches),)
    total = micro_batches * virtual
    warm = 2 * (stages - stage - 1) + (virtual - 1) * stages
    running = min(warm + 1, total)
    counts = [0] * virtual
    for forward in range(running):
        counts[forward // stages % virtual] += 1
    return tuple(counts)
