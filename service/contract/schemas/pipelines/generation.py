"""Requests and answers of /v1/pipelines."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import Answer, FitConfidence, JsonObject, ModelText, Strict
from service.contract.schemas.fit import GpuReference
from service.estimator.pipelines.workload import PipelineOffload

_MAX_SIDE = 16_384
_MAX_FRAMES = 10_001
_MAX_BATCH = 1024
FormatName = Literal["bf16", "fp16", "fp32"]
PipelineConfigs = Annotated[
    dict[str, JsonObject],
    Meta(description="The `config.json` of each component, by its name in `model_index.json`."),
]
Side = Annotated[int, Meta(ge=8, le=_MAX_SIDE)]
Pictures = Annotated[int, Meta(ge=1, le=_MAX_BATCH)]


class InlinePipeline(Strict, frozen=True, kw_only=True):
    """A pipeline that is not named: its own files, or a recording of it."""

    model_index: Annotated[
        JsonObject | UnsetType,
        Meta(description="The `model_index.json` of a pipeline of diffusers; with `configs`."),
    ] = UNSET
    configs: PipelineConfigs | UnsetType = UNSET
    recording: Annotated[
        JsonObject | UnsetType,
        Meta(description="The document that `headroom pipelines record` writes."),
    ] = UNSET


class GenerateRequest(Strict, frozen=True, kw_only=True):
    """Images or videos that one call of a pipeline makes; steps take no memory."""

    height: Annotated[
        Side | UnsetType,
        Meta(description="Pixels of a picture's height; default the call's own.", examples=[1024]),
    ] = UNSET
    width: Annotated[
        Side | UnsetType,
        Meta(description="Pixels of a picture's width; default the call's own.", examples=[1024]),
    ] = UNSET
    task: Annotated[Literal["generate"] | UnsetType, Meta(description="What the call does.")] = (
        UNSET
    )
    num_frames: Annotated[
        Annotated[int, Meta(ge=1, le=_MAX_FRAMES)] | UnsetType,
        Meta(description="Frames of a video; default `num_frames` of the call, 1 for images."),
    ] = UNSET
    num_prompts: Annotated[Pictures, Meta(description="Prompts of the call.")] = 1
    images_per_prompt: Annotated[
        Pictures,
        Meta(description="`num_images_per_prompt` or `num_videos_per_prompt` of the call."),
    ] = 1
    guidance: Annotated[
        bool | UnsetType,
        Meta(
            description=(
                "Whether each step runs a negative prompt too (classifier-free guidance): "
                "`guidance_scale` above 1, of FLUX, Qwen-Image and HunyuanVideo `true_cfg_scale`. "
                "Default as the class has it: not for FLUX and HunyuanVideo, whose own guidance is "
                "a number among their inputs."
            )
        ),
    ] = UNSET
    dtype: Annotated[
        FormatName, Meta(description="Format of the network that denoises (`torch_dtype`).")
    ] = "bf16"
    text_encoder_dtype: Annotated[
        FormatName | UnsetType, Meta(description="Format of the text encoders; default `dtype`.")
    ] = UNSET
    vae_dtype: Annotated[
        FormatName | UnsetType, Meta(description="Format of the VAE; default `dtype`.")
    ] = UNSET
    max_sequence_length: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | UnsetType,
        Meta(description="Tokens of a prompt; default that of the pipeline's call."),
    ] = UNSET
    offloading: Annotated[
        PipelineOffload,
        Meta(
            description=(
                "Where weights are while they do not work: `none` (all on the GPU), `model` "
                "(`enable_model_cpu_offload`), `sequential` (`enable_sequential_cpu_offload`), "
                "`group` (`enable_group_offload` by blocks)."
            )
        ),
    ] = PipelineOffload.NONE
    blocks_per_group: Annotated[
        Annotated[int, Meta(ge=1, le=1024)],
        Meta(description="`num_blocks_per_group` of group offloading."),
    ] = 1
    offload_stream: Annotated[
        bool,
        Meta(description="`use_stream` of group offloading: the next block comes while one works."),
    ] = False
    output_type: Annotated[
        Literal["picture", "latent"],
        Meta(description="`latent` where the call decodes nothing, as `output_type` of it."),
    ] = "picture"
    vae_tiling: Annotated[
        bool, Meta(description="`vae.enable_tiling()`: the picture is decoded tile by tile.")
    ] = False
    vae_slicing: Annotated[
        bool, Meta(description="`vae.enable_slicing()`: a batch is decoded one by one.")
    ] = False


class PipelineFitRequest(Strict, frozen=True, kw_only=True):
    """A question: does a call of this pipeline fit on this GPU."""

    pipeline: Annotated[
        ModelText | InlinePipeline,
        Meta(description="Name of a shipped pipeline, its id on the hub, or an inline one."),
    ]
    workload: Annotated[GenerateRequest, Meta(description="What the call makes.")]
    gpu: Annotated[GpuReference, Meta(description="Name or alias of a GPU, or its memory.")]
    confidence: FitConfidence = 0.95
    remedies: Annotated[
        bool, Meta(description="Whether to look for what would help where it does not fit.")
    ] = True


class PipelineComponentAnswer(Answer, frozen=True, kw_only=True):
    """One component of a pipeline: its class, its parameters and its bytes by format."""

    name: Annotated[str, Meta(description="Name in `model_index.json`.", examples=["transformer"])]
    library: Annotated[str, Meta(description="Library of its class.", examples=["diffusers"])]
    class_name: Annotated[str, Meta(description="Its class.", examples=["FluxTransformer2DModel"])]
    num_parameters: Annotated[int, Meta(description="Elements of its weights, exact.")]
    weight_bytes: Annotated[
        Mapping[str, int], Meta(description="Bytes of weights and buffers, by number format.")
    ]
    source: Annotated[
        str | None, Meta(description="Where its sizes were taken from; null where nobody said.")
    ]


class PipelineAnswer(Answer, frozen=True, kw_only=True):
    """A shipped pipeline and what it was recorded with."""

    name: Annotated[str, Meta(description="Name by which it is asked.", examples=["flux.1-dev"])]
    class_name: Annotated[
        str, Meta(description="Its class in diffusers.", examples=["FluxPipeline"])
    ]
    hub_ids: Annotated[tuple[str, ...], Meta(description="Its names on the hub, in lower case.")]
    makes_video: Annotated[bool, Meta(description="Whether it makes videos, not images.")]
    components: Annotated[
        list[PipelineComponentAnswer], Meta(description="Its networks, text encoders and VAE.")
    ]
    releases: Annotated[
        Mapping[str, str], Meta(description="Releases of the libraries that were recorded.")
    ]


class PipelinePage(Answer, frozen=True, kw_only=True):
    """Shipped pipelines by name."""

    items: Annotated[list[PipelineAnswer], Meta(description="The pipelines.")]
    next_cursor: str | None
