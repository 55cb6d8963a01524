"""Chunks of a model on a pipeline, however it is split."""

from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.chunks import Chunk, build_chunks, check_sum
from service.estimator.model.pipelines.deepspeed import split_by_method
from service.estimator.model.pipelines.megatron import (
    split_by_string,
    split_evenly,
    split_with_places,
    split_with_uneven_ends,
)
from service.estimator.model.pipelines.torchtitan import split_as_torchtitan
from service.estimator.values.layout import Layout
from service.estimator.values.memo import keep_latest
from service.estimator.values.pipeline import EVEN, PipelineSchedule, PipelineSplit


def split_model(model: Architecture, layout: Layout) -> tuple[Chunk, ...]:
    """Return the chunks of a model in its order.

    Raises InvalidInputError for layers that the layout cannot spread as it says.
    """
    pipeline = get_pipeline(layout)
    if pipeline.pipeline_split.partition_method is not None:
        return split_by_method(model, pipeline)
    return split_layers(pipeline, model.num_hidden_layers)


def get_pipeline(layout: Layout) -> Layout:
    """Return the pipeline of a layout alone, as one object."""
    return _make_pipeline(
        layout.pipeline_parallel,
        layout.virtual_pipeline_stages,
        layout.pipeline_split,
        layout.pipeline_schedule,
    )


@keep_latest(1024)
def _make_pipeline(
    stages: int, virtual: int, split: PipelineSplit, schedule: PipelineSchedule | None
) -> Layout:
    return Layout(
        pipeline_parallel=stages,
        virtual_pipeline_stages=virtual,
        pipeline_split=split,
        pipeline_schedule=schedule,
    )


@keep_latest(1024)
def split_layers(layout: Layout, num_layers: int) -> tuple[Chunk, ...]:
    """Return the chunks of so many layers."""
    split = layout.pipeline_split
    if split == EVEN:
        return split_evenly(layout, num_layers)
    if split.pipeline_layers is not None:
        check_sum(split.pipeline_layers, num_layers, split.field)
        return build_chunks(split.pipeline_layers)
    if split.pipeline_model_parallel_layout is not None:
        return split_by_string(layout, num_layers)
    if split.num_layers_in_first_pipeline_stage or split.num_layers_in_last_pipeline_stage:
        return split_with_uneven_ends(layout, num_layers)
    if split.account_for_embedding_in_pipeline_split or split.account_for_loss_in_pipeline_split:
        return split_with_places(layout, num_layers)
    return split_as_torchtitan(layout, num_layers)
