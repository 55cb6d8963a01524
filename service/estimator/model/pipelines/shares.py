"""Shares of a model's layers that its stages run.

The slowest stage sets the pace.
"""

from typing import NamedTuple

from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.chunks import Chunk, list_stage_positions
from service.estimator.model.pipelines.split import get_pipeline, split_model
from service.estimator.values.layout import Layout
from service.estimator.values.memo import keep_latest
from service.estimator.values.pipeline import EVEN


class StageShare(NamedTuple):
    """Share of a stage: layers over ``divisor``, and so many heads."""

    divisor: float
    num_heads: int


def list_stage_shares(model: Architecture, layout: Layout) -> tuple[StageShare, ...]:
    """Return the shares of the stages that can be the slowest.

    They are that with the loss, and where it has fewer layers, that with the most of them.
    """
    if layout.pipeline_split == EVEN:
        return (StageShare(layout.pipeline_parallel, 1),)
    return _list_shares(split_model(model, layout), get_pipeline(layout))


def get_layers_divisor(model: Architecture, layout: Layout) -> float:
    """Return the divisor of the layers on the fullest stage."""
    return min(share.divisor for share in list_stage_shares(model, layout))


@keep_latest(1024)
def _list_shares(chunks: tuple[Chunk, ...], layout: Layout) -> tuple[StageShare, ...]:
    total = sum(chunk.num_layers for chunk in chunks)
    by_stage: dict[int, tuple[int, int]] = {}
    for stage in range(layout.pipeline_parallel):
        chunks_of_stage = [chunks[position] for position in list_stage_positions(layout, stage)]
        heads = sum(1 + chunk.num_predictors for chunk in chunks_of_stage if chunk.has_loss)
        by_stage[stage] = (
            sum(chunk.num_layers + chunk.num_predictors for chunk in chunks_of_stage),
            heads,
        )
    most_layers = max(layers for layers, _ in by_stage.values())
    with_loss = next(entry for entry in by_stage.values() if entry[1])
    entries = dict.fromkeys(
        [with_loss, (most_layers, 0)] if with_loss[0] < most_layers else [with_loss]
    )
    return tuple(StageShare(total / layers, heads) for layers, heads in entries if layers)
