from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.generate_request_dtype import GenerateRequestDtype, check_generate_request_dtype
from ..models.generate_request_output_type import GenerateRequestOutputType, check_generate_request_output_type
from ..models.generate_request_task import GenerateRequestTask, check_generate_request_task
from ..models.generate_request_text_encoder_dtype import (
    GenerateRequestTextEncoderDtype,
    check_generate_request_text_encoder_dtype,
)
from ..models.generate_request_vae_dtype import GenerateRequestVaeDtype, check_generate_request_vae_dtype
from ..models.pipeline_offload import PipelineOffload, check_pipeline_offload
from ..types import UNSET, Unset

T = TypeVar("T", bound="GenerateRequest")


@_attrs_define
class GenerateRequest:
    """Images or videos that one call of a pipeline makes; steps take no memory.

    Attributes:
        height (int | Unset): Pixels of a picture's height; default the call's own.
        width (int | Unset): Pixels of a picture's width; default the call's own.
        task (GenerateRequestTask | Unset): What the call does.
        num_frames (int | Unset): Frames of a video; default `num_frames` of the call, 1 for images.
        num_prompts (int | Unset): Prompts of the call. Default: 1.
        images_per_prompt (int | Unset): `num_images_per_prompt` or `num_videos_per_prompt` of the call. Default: 1.
        guidance (bool | Unset): Whether each step runs a negative prompt too (classifier-free guidance):
            `guidance_scale` above 1, of FLUX, Qwen-Image and HunyuanVideo `true_cfg_scale`. Default as the class has it:
            not for FLUX and HunyuanVideo, whose own guidance is a number among their inputs.
        dtype (GenerateRequestDtype | Unset): Format of the network that denoises (`torch_dtype`). Default: 'bf16'.
        text_encoder_dtype (GenerateRequestTextEncoderDtype | Unset): Format of the text encoders; default `dtype`.
        vae_dtype (GenerateRequestVaeDtype | Unset): Format of the VAE; default `dtype`.
        max_sequence_length (int | Unset): Tokens of a prompt; default that of the pipeline's call.
        offloading (PipelineOffload | Unset): Where weights are while they do not work.

            ``enable_model_cpu_offload``, ``enable_sequential_cpu_offload`` and ``enable_group_offload`` (by blocks) of
            diffusers.
        blocks_per_group (int | Unset): `num_blocks_per_group` of group offloading. Default: 1.
        offload_stream (bool | Unset): `use_stream` of group offloading: the next block comes while one works. Default:
            False.
        output_type (GenerateRequestOutputType | Unset): `latent` where the call decodes nothing, as `output_type` of
            it. Default: 'picture'.
        vae_tiling (bool | Unset): `vae.enable_tiling()`: the picture is decoded tile by tile. Default: False.
        vae_slicing (bool | Unset): `vae.enable_slicing()`: a batch is decoded one by one. Default: False.
    """

    height: int | Unset = UNSET
    width: int | Unset = UNSET
    task: GenerateRequestTask | Unset = UNSET
    num_frames: int | Unset = UNSET
    num_prompts: int | Unset = 1
    images_per_prompt: int | Unset = 1
    guidance: bool | Unset = UNSET
    dtype: GenerateRequestDtype | Unset = "bf16"
    text_encoder_dtype: GenerateRequestTextEncoderDtype | Unset = UNSET
    vae_dtype: GenerateRequestVaeDtype | Unset = UNSET
    max_sequence_length: int | Unset = UNSET
    offloading: PipelineOffload | Unset = UNSET
    blocks_per_group: int | Unset = 1
    offload_stream: bool | Unset = False
    output_type: GenerateRequestOutputType | Unset = "picture"
    vae_tiling: bool | Unset = False
    vae_slicing: bool | Unset = False

    def to_dict(self) -> dict[str, Any]:
        height = self.height

        width = self.width

        task: str | Unset = UNSET
        if not isinstance(self.task, Unset):
            task = self.task

        num_frames = self.num_frames

        num_prompts = self.num_prompts

        images_per_prompt = self.images_per_prompt

        guidance = self.guidance

        dtype: str | Unset = UNSET
        if not isinstance(self.dtype, Unset):
            dtype = self.dtype

        text_encoder_dtype: str | Unset = UNSET
        if not isinstance(self.text_encoder_dtype, Unset):
            text_encoder_dtype = self.text_encoder_dtype

        vae_dtype: str | Unset = UNSET
        if not isinstance(self.vae_dtype, Unset):
            vae_dtype = self.vae_dtype

        max_sequence_length = self.max_sequence_length

        offloading: str | Unset = UNSET
        if not isinstance(self.offloading, Unset):
            offloading = self.offloading

        blocks_per_group = self.blocks_per_group

        offload_stream = self.offload_stream

        output_type: str | Unset = UNSET
        if not isinstance(self.output_type, Unset):
            output_type = self.output_type

        vae_tiling = self.vae_tiling

        vae_slicing = self.vae_slicing

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if height is not UNSET:
            field_dict["height"] = height
        if width is not UNSET:
            field_dict["width"] = width
        if task is not UNSET:
            field_dict["task"] = task
        if num_frames is not UNSET:
            field_dict["num_frames"] = num_frames
        if num_prompts is not UNSET:
            field_dict["num_prompts"] = num_prompts
        if images_per_prompt is not UNSET:
            field_dict["images_per_prompt"] = images_per_prompt
        if guidance is not UNSET:
            field_dict["guidance"] = guidance
        if dtype is not UNSET:
            field_dict["dtype"] = dtype
        if text_encoder_dtype is not UNSET:
            field_dict["text_encoder_dtype"] = text_encoder_dtype
        if vae_dtype is not UNSET:
            field_dict["vae_dtype"] = vae_dtype
        if max_sequence_length is not UNSET:
            field_dict["max_sequence_length"] = max_sequence_length
        if offloading is not UNSET:
            field_dict["offloading"] = offloading
        if blocks_per_group is not UNSET:
            field_dict["blocks_per_group"] = blocks_per_group
        if offload_stream is not UNSET:
            field_dict["offload_stream"] = offload_stream
        if output_type is not UNSET:
            field_dict["output_type"] = output_type
        if vae_tiling is not UNSET:
            field_dict["vae_tiling"] = vae_tiling
        if vae_slicing is not UNSET:
            field_dict["vae_slicing"] = vae_slicing

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        height = d.pop("height", UNSET)

        width = d.pop("width", UNSET)

        _task = d.pop("task", UNSET)
        task: GenerateRequestTask | Unset
        if isinstance(_task, Unset):
            task = UNSET
        else:
            task = check_generate_request_task(_task)

        num_frames = d.pop("num_frames", UNSET)

        num_prompts = d.pop("num_prompts", UNSET)

        images_per_prompt = d.pop("images_per_prompt", UNSET)

        guidance = d.pop("guidance", UNSET)

        _dtype = d.pop("dtype", UNSET)
        dtype: GenerateRequestDtype | Unset
        if isinstance(_dtype, Unset):
            dtype = UNSET
        else:
            dtype = check_generate_request_dtype(_dtype)

        _text_encoder_dtype = d.pop("text_encoder_dtype", UNSET)
        text_encoder_dtype: GenerateRequestTextEncoderDtype | Unset
        if isinstance(_text_encoder_dtype, Unset):
            text_encoder_dtype = UNSET
        else:
            text_encoder_dtype = check_generate_request_text_encoder_dtype(_text_encoder_dtype)

        _vae_dtype = d.pop("vae_dtype", UNSET)
        vae_dtype: GenerateRequestVaeDtype | Unset
        if isinstance(_vae_dtype, Unset):
            vae_dtype = UNSET
        else:
            vae_dtype = check_generate_request_vae_dtype(_vae_dtype)

        max_sequence_length = d.pop("max_sequence_length", UNSET)

        _offloading = d.pop("offloading", UNSET)
        offloading: PipelineOffload | Unset
        if isinstance(_offloading, Unset):
            offloading = UNSET
        else:
            offloading = check_pipeline_offload(_offloading)

        blocks_per_group = d.pop("blocks_per_group", UNSET)

        offload_stream = d.pop("offload_stream", UNSET)

        _output_type = d.pop("output_type", UNSET)
        output_type: GenerateRequestOutputType | Unset
        if isinstance(_output_type, Unset):
            output_type = UNSET
        else:
            output_type = check_generate_request_output_type(_output_type)

        vae_tiling = d.pop("vae_tiling", UNSET)

        vae_slicing = d.pop("vae_slicing", UNSET)

        generate_request = cls(
            height=height,
            width=width,
            task=task,
            num_frames=num_frames,
            num_prompts=num_prompts,
            images_per_prompt=images_per_prompt,
            guidance=guidance,
            dtype=dtype,
            text_encoder_dtype=text_encoder_dtype,
            vae_dtype=vae_dtype,
            max_sequence_length=max_sequence_length,
            offloading=offloading,
            blocks_per_group=blocks_per_group,
            offload_stream=offload_stream,
            output_type=output_type,
            vae_tiling=vae_tiling,
            vae_slicing=vae_slicing,
        )

        return generate_request
