"""Pipeline stages: the layers of their chunks."""

from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.families.moe.tree import MoeSpec
from service.estimator.model.pipelines.chunks import Chunk, list_stage_positions
from service.estimator.model.pipelines.split import get_pipeline, split_model
from service.estimator.values.layout import Layout
from service.estimator.values.megatron import MegatronOptions
from service.estimator.values.memo import keep_latest

_PLAIN = MegatronOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLayers:
    """Layers of one chunk of one stage.

    ``dense`` layers, ``sparse`` layers with experts, ``predictors`` of further tokens, and whether
    it is the ``first`` or ``last`` chunk, with embedding or head.
    """

    dense: int
    sparse: int
    first: bool
    last: bool
    predictors: int = 0

    @property
    def has_table(self) -> bool:
        """Whether it has the embedding's table: predictors look up tokens as well."""
        return self.first or self.predictors > 0

    def with_predictors(self, *, sparse: bool) -> "StageLayers":
        """Return the same with predictors' layers among the others."""
        return replace(
            self,
            dense=self.dense + (0 if sparse else self.predictors),
            sparse=self.sparse + (self.predictors if sparse else 0),
        )


Chunks = tuple[StageLayers, ...]
ByStage = tuple[tuple[int, Chunks], ...]
"""Stages, each with its chunks in the order of the model: one, or ``virtual_pipeline_stages`` that
alternate between stages.
"""


def list_stage_chunks(
    model: Architecture, layout: Layout, options: MegatronOptions = _PLAIN
) -> ByStage:
    """Return the chunks of all stages.

    Predictors that no layout draws are on the last one (core/transformer/
    multi_token_prediction.py, ``get_mtp_num_layers_to_build``).
    """
    split, num_predictors = split_model(model, layout), options.mtp_num_layers
    if num_predictors and not any(chunk.num_predictors for chunk in split):
        split = (*split[:-1], replace(split[-1], num_predictors=num_predictors))
    return _list_stage_chunks(split, count_dense_layers(model), get_pipeline(layout))


def list_distinct_stages(
    model: Architecture, layout: Layout, options: MegatronOptions = _PLAIN
) -> ByStage:
    """Return the first of the stages that have the same layers."""
    all_stages = list_stage_chunks(model, layout, options)
    return tuple({chunks: (stage, chunks) for stage, chunks in reversed(all_stages)}.values())[::-1]


@keep_latest(1024)
def _list_stage_chunks(split: tuple[Chunk, ...], leading: int, layout: Layout) -> ByStage:
    chunks = tuple(_count_layers(chunk, leading) for chunk in split)
    return tuple(
        (stage, tuple(chunks[position] for position in list_stage_positions(layout, stage)))
        for stage in range(layout.pipeline_parallel)
    )


def _count_layers(chunk: Chunk, leading: int) -> StageLayers:
    dense = min(max(leading - chunk.first_layer, 0), chunk.num_layers)
    return StageLayers(
        dense=dense,
        sparse=chunk.num_layers - dense,
        first=chunk.has_embedding,
        last=chunk.has_loss,
        predictors=chunk.num_predictors,
    )


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
        predictors=sum(chunk.predictors for chunk in chunks),
    )
