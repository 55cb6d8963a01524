"""Decoded requests about pipelines as questions."""

from msgspec import UnsetType

from service.base.errors import InvalidRequestError
from service.catalog.pipelines.matching import match_pipeline
from service.catalog.pipelines.shipped import load_pipeline
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.pipelines.generation import (
    GenerateRequest,
    InlinePipeline,
    PipelineFitRequest,
)
from service.contract.to_question.fits import read_device
from service.estimator.pipelines.call_defaults import CallSize, get_call_size
from service.estimator.pipelines.decoding import read_pipeline
from service.estimator.pipelines.recording import RecordedPipeline
from service.estimator.pipelines.workload import GenerateWorkload
from service.estimator.values.dtypes import DType
from service.usecases.questions.generation import GenerationQuestion

_WITHOUT_GUIDANCE = frozenset(
    {"Flux2KleinPipeline", "Flux2Pipeline", "FluxPipeline", "HunyuanVideoPipeline"}
)
"""Classes whose own guidance is a number among the inputs, or is distilled into the weights."""


def read_generation(request: PipelineFitRequest) -> GenerationQuestion:
    """Return the question of a request.

    Raises ServiceError and EstimatorError for what is not known or cannot run.
    """
    pipeline, notes = _read_pipeline(request.pipeline)
    workload, defaults = read_generate_workload(request.workload, pipeline)
    return GenerationQuestion(
        pipeline=pipeline,
        workload=workload,
        device=read_device(request.gpu),
        level=request.confidence,
        remedies=request.remedies,
        assumptions=(*notes, *defaults),
    )


def _read_pipeline(reference: str | InlinePipeline) -> tuple[RecordedPipeline, tuple[str, ...]]:
    if isinstance(reference, str):
        return load_pipeline(reference), ()
    if not isinstance(reference.recording, UnsetType):
        if not isinstance(reference.model_index, UnsetType):
            raise _refuse_reference("a recording needs no model_index")
        return read_pipeline(reference.recording), ()
    if isinstance(reference.model_index, UnsetType) or isinstance(reference.configs, UnsetType):
        raise _refuse_reference("an inline pipeline has a recording, or model_index and configs")
    pipeline = match_pipeline(reference.model_index, reference.configs)
    return pipeline, (f"pipeline: its configs are those of {pipeline.name}",)


def _refuse_reference(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, errors=[{"field": "pipeline", "message": message}])


def read_generate_workload(
    request: GenerateRequest, pipeline: RecordedPipeline
) -> tuple[GenerateWorkload, tuple[str, ...]]:
    """Return the workload, and its defaults in words."""
    guidance = get_or_none(request.guidance)
    size, notes = _read_size(request, pipeline)
    if guidance is None:
        guidance = pipeline.class_name not in _WITHOUT_GUIDANCE
        notes.append(f"workload.guidance = {'true' if guidance else 'false'}")
    if isinstance(request.max_sequence_length, UnsetType) and pipeline.has_free_tokens:
        notes.append(f"workload.max_sequence_length = {pipeline.max_tokens}")
    dtype = request.dtype
    workload = GenerateWorkload(
        **size,
        num_prompts=request.num_prompts,
        images_per_prompt=request.images_per_prompt,
        guidance=guidance,
        dtype=DType(dtype),
        text_encoder_dtype=DType(get_or_none(request.text_encoder_dtype) or dtype),
        vae_dtype=DType(get_or_none(request.vae_dtype) or dtype),
        max_sequence_length=get_or_none(request.max_sequence_length),
        offloading=request.offloading,
        blocks_per_group=request.blocks_per_group,
        offload_stream=request.offload_stream,
        decodes=request.output_type == "picture",
        vae_tiling=request.vae_tiling,
        vae_slicing=request.vae_slicing,
    )
    return workload, tuple(notes)


def _read_size(
    request: GenerateRequest, pipeline: RecordedPipeline
) -> tuple[dict[str, int], list[str]]:
    """Return the size of a call, and its defaults in words."""
    sent = {name: get_or_none(getattr(request, name)) for name in CallSize._fields}
    if None not in sent.values():
        return {name: value for name, value in sent.items() if value is not None}, []
    default_size = get_call_size(pipeline)._asdict()
    size = {name: default_size[name] if value is None else value for name, value in sent.items()}
    is_video = pipeline.makes_video
    unsaid = [name for name, value in sent.items() if value is None]
    noted = [name for name in unsaid if is_video or name != "num_frames"]
    return size, [f"workload.{name} = {size[name]}" for name in noted]
