"""Splits of torchtitan, whose end stages have fewer layers.

``torchtitan/distributed/pipeline_parallel.py``.
"""

from dataclasses import replace

from service.estimator.model.pipelines.chunks import Chunk, build_chunks
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.pipeline import EVEN, PipelineSplit
from service.estimator.values.units import ceil_div

_LESS_LAYERS = 1
"""Layers that embedding and head count for unless said (``ParallelismConfig``)."""


def name_torchtitan_split(layout: Layout) -> Layout:
    """Return a layout whose split is torchtitan's default where it says none."""
    if layout.pipeline_split != EVEN or layout.pipeline_parallel == 1:
        return layout
    split = PipelineSplit(pipeline_parallel_first_stage_less_layers=_LESS_LAYERS)
    return replace(layout, pipeline_split=split)


def count_torchtitan_chunks(layout: Layout, num_layers: int) -> int:
    """Return how many chunks torchtitan makes of so many layers."""
    per_chunk = layout.pipeline_split.pipeline_parallel_layers_per_stage
    if per_chunk is None:
        return layout.pipeline_parallel * layout.virtual_pipeline_stages
    return ceil_div(num_layers + sum(_get_weights(layout)), per_chunk)


def split_as_torchtitan(layout: Layout, num_layers: int) -> tuple[Chunk, ...]:
    """Return torchtitan's chunks.

    Embedding and head count as layers, and the first chunks take what is left over.
    """
    split, num_chunks = layout.pipeline_split, count_torchtitan_chunks(layout, num_layers)
    num_places = layout.pipeline_parallel * layout.virtual_pipeline_stages
    if num_chunks != num_places:
        message = (
            f"{split.pipeline_parallel_layers_per_stage} layers a stage make {num_chunks} chunks "
            f"of {num_layers} layers, but pipeline_parallel {layout.pipeline_parallel} x "
            f"virtual_pipeline_stages {layout.virtual_pipeline_stages} is {num_places}"
        )
        raise InvalidInputError(message, field=split.field)
    first, last = _get_weights(layout)
    per_chunk, extra = divmod(num_layers + first + last, num_chunks)
    if per_chunk < max(first, last, 1):
        message = (
            f"{num_chunks} chunks of {num_layers} layers have {per_chunk} places each, and "
            f"embedding and head take {first} and {last}"
        )
        raise InvalidInputError(message, field=split.field)
    counts = [per_chunk + (index < extra) for index in range(num_chunks)]
    counts[0] -= first
    counts[-1] -= last
    return build_chunks(tuple(counts))


def _get_weights(layout: Layout) -> tuple[int, int]:
    split = layout.pipeline_split
    first = split.pipeline_parallel_first_stage_less_layers
    last = split.pipeline_parallel_last_stage_less_layers
    return (
        _LESS_LAYERS if first is None else first,
        _LESS_LAYERS if last is None else last,
    )
