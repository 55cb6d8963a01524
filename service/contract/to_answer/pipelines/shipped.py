"""Shipped pipelines as answers of the contract."""

from service.catalog.pipelines.shipped import list_hub_ids
from service.contract.schemas.pipelines.generation import PipelineAnswer, PipelineComponentAnswer
from service.estimator.pipelines.recording import FORMATS, RecordedPipeline


def build_pipeline(pipeline: RecordedPipeline) -> PipelineAnswer:
    """Return a pipeline with its components."""
    return PipelineAnswer(
        name=pipeline.name,
        class_name=pipeline.class_name,
        hub_ids=list_hub_ids(pipeline.name),
        makes_video=pipeline.makes_video,
        components=[
            PipelineComponentAnswer(
                name=part.name,
                library=part.library,
                class_name=part.class_name,
                num_parameters=part.num_parameters,
                weight_bytes={dtype.value: part.count_bytes(dtype) for dtype in FORMATS},
                source=pipeline.sources.get(part.name),
            )
            for part in pipeline.components.values()
        ],
        releases=dict(pipeline.releases),
    )
