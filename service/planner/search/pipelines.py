"""Pipelines that a search tries, uneven ones among them."""

from collections.abc import Sequence
from functools import lru_cache
from math import inf

from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.megatron import spread_layers
from service.estimator.model.pipelines.split import split_model
from service.estimator.values.layout import Layout
from service.estimator.values.pipeline import EVEN, PipelineSplit

_FEWEST_LAYERS = 2
"""Layers of a stage below which an uneven split leaves one idle for a third of its time."""


def list_pipelines(num_layers: int, layout: Layout, values: Sequence[int]) -> Sequence[int]:
    """Return the numbers of stages to try.

    They are those that divide the layers, and powers of two, which fill nodes.
    """
    if layout.pipeline_split != EVEN:
        return values
    virtual = layout.virtual_pipeline_stages
    return tuple(
        stages
        for stages in values
        if num_layers % (stages * virtual) == 0
        or (not stages & (stages - 1) and stages * virtual * _FEWEST_LAYERS <= num_layers)
    )


@lru_cache(maxsize=1024)
def choose_split(num_layers: int, layout: Layout, stages: int) -> PipelineSplit:
    """Return how so many stages split the layers.

    It is as the question says, or as evenly as can be.
    """
    chunks = stages * layout.virtual_pipeline_stages
    if layout.pipeline_split != EVEN or stages == 1 or num_layers % chunks == 0:
        return layout.pipeline_split
    return PipelineSplit(pipeline_layers=spread_layers(num_layers, chunks))


def count_activation_ranks(model: Architecture, layout: Layout) -> float:
    """Return the most ranks that share what a sequence saves.

    A first stage of few layers keeps the most micro-batches, so that it bounds an uneven pipeline.
    """
    split = layout.tensor_parallel * layout.context_parallel
    if layout.pipeline_split == EVEN:
        return split * layout.pipeline_parallel
    counts = [chunk.num_layers for chunk in split_model(model, layout)]
    fewest = min(counts) * layout.virtual_pipeline_stages
    return split * model.num_hidden_layers / fewest if fewest else inf
