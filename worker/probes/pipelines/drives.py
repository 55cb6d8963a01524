"""Calls of diffusers' pipelines, as a user makes them.

A pipeline's own ``__call__`` runs on embeddings of a prompt; its text encoders and its decoder run
by themselves, as its code calls them (diffusers 0.42, ``pipelines/<name>/pipeline_<name>.py``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from service.estimator.pipelines.extents import Extents
from worker.probes.pipelines.decoders import (
    decode_flux,
    decode_hunyuan,
    decode_ltx,
    decode_qwen,
    decode_scaled,
    decode_shifted,
    decode_wan,
    decode_xl,
)
from worker.probes.pipelines.stubs import EulerScheduler, FlowScheduler

Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """A text encoder, and how the pipeline calls it.

    ``max_tokens`` are those of its prompts, 0 where the workload says how many.
    """

    max_tokens: int
    template_tokens: int = 0
    """Tokens that a template puts before those of the prompt."""
    hidden_states: bool = False
    mask: bool = False
    cache: bool = True
    """Whether the call leaves a cache of keys and values to the encoder's default."""
    layers: tuple[int, ...] = ()
    """Hidden states that are stacked side by side to the prompt's embeddings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """Calls of one class of pipelines."""

    pixel_step: int
    """Pixels of a step of height and of width, of which the latents are whole multiples."""
    latent_pixels: int
    """Pixels of a latent's side."""
    frame_step: int = 0
    """Frames of a latent frame after the first; 0 for images."""
    max_tokens: int
    """Tokens of the embeddings that the denoiser sees."""
    fixed_tokens: int = 0
    """Tokens beside those, which every prompt has."""
    encoders: Mapping[str, Encoder]
    embed: Callable[[Any, int, int, torch.dtype], Arguments]
    """The embeddings of so many prompts and tokens, in a format."""
    guide: Callable[[Arguments], Arguments] | None
    """Arguments of a guided call, beside those of a plain one; None where there is none."""
    plain: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of a call without guidance."""
    scheduler: type[FlowScheduler] = FlowScheduler
    decode: Callable[[Any, torch.Tensor, Extents], torch.Tensor]
    """The decoder's part of the call, on latents as the loop left them."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the pipeline's constructor beside its components."""
    prepare: Callable[[Any], None] = lambda _: None
    """What is replaced of a pipeline that makes indices on the host."""
    token_multiple: int = 1
    """Tokens of a picture and of a prompt are padded to a multiple of this."""
    is_single: bool = False
    """Whether its network takes pictures one by one: calls of one are recorded."""
    latents_dtype: torch.dtype | None = None
    """Format of the latents between steps where it is not the network's."""


def make_arguments(drive: Drive, pipe: Any, extents: Extents, *, guided: bool) -> Arguments:  # noqa: ANN401 - a pipeline of diffusers
    """Return the arguments of a pipeline's call."""
    denoiser = get_denoiser(pipe)
    dtype = next(part.dtype for part in denoiser.parameters() if part.dtype.is_floating_point)
    half = getattr(denoiser, "dtype", dtype)
    arguments = drive.embed(pipe, extents.batch, extents.tokens, half)
    arguments |= drive.guide(arguments) if guided and drive.guide else drive.plain
    arguments["height"] = extents.height * drive.pixel_step
    arguments["width"] = extents.width * drive.pixel_step
    if drive.frame_step:
        arguments["num_frames"] = (extents.frames - 1) * drive.frame_step + 1
    return arguments


def get_denoiser(pipe: Any) -> Any:  # noqa: ANN401 - a pipeline of diffusers and its network
    """Return the network that the loop calls."""
    return getattr(pipe, "unet", None) or pipe.transformer


def negate(arguments: Arguments) -> Arguments:
    """Return the embeddings of a negative prompt of the same size."""
    return {f"negative_{name}": _copy(value) for name, value in arguments.items()}


def _copy(value: Any) -> Any:  # noqa: ANN401 - a tensor, or one for each prompt
    if isinstance(value, list):
        return [torch.zeros_like(part) for part in value]
    return torch.zeros_like(value)


def _embed_cross(pipe: Any, batch: int, tokens: int, dtype: torch.dtype) -> Arguments:  # noqa: ANN401 - a pipeline of diffusers
    width = pipe.unet.config.cross_attention_dim
    return {"prompt_embeds": torch.zeros((batch, tokens, width), dtype=dtype)}


def _embed_pooled(width: int) -> Callable[[Any, int, int, torch.dtype], Arguments]:
    """Return embeddings of tokens with one of the whole prompt beside them."""

    def embed(pipe: Any, batch: int, tokens: int, dtype: torch.dtype) -> Arguments:  # noqa: ANN401 - a pipeline of diffusers
        config = get_denoiser(pipe).config
        joint = getattr(config, "joint_attention_dim", None) or config.cross_attention_dim
        return {
            "prompt_embeds": torch.zeros((batch, tokens, joint), dtype=dtype),
            "pooled_prompt_embeds": torch.zeros((batch, width), dtype=dtype),
        }

    return embed


def _embed_text(pipe: Any, batch: int, tokens: int, dtype: torch.dtype) -> Arguments:  # noqa: ANN401 - a pipeline of diffusers
    width = pipe.transformer.config.text_dim
    return {"prompt_embeds": torch.zeros((batch, tokens, width), dtype=dtype)}


def _embed_hunyuan(pipe: Any, batch: int, tokens: int, dtype: torch.dtype) -> Arguments:  # noqa: ANN401 - a pipeline of diffusers
    config = pipe.transformer.config
    return {
        "prompt_embeds": torch.zeros((batch, tokens, config.text_embed_dim), dtype=dtype),
        "pooled_prompt_embeds": torch.zeros((batch, config.pooled_projection_dim), dtype=dtype),
        "prompt_attention_mask": torch.ones((batch, tokens), dtype=torch.long),
    }


def _embed_qwen(pipe: Any, batch: int, tokens: int, dtype: torch.dtype) -> Arguments:  # noqa: ANN401 - a pipeline of diffusers
    width = pipe.transformer.config.joint_attention_dim
    return {"prompt_embeds": torch.zeros((batch, tokens, width), dtype=dtype)}


def _embed_ltx(pipe: Any, batch: int, tokens: int, dtype: torch.dtype) -> Arguments:  # noqa: ANN401 - a pipeline of diffusers
    width = pipe.transformer.config.caption_channels
    return {
        "prompt_embeds": torch.zeros((batch, tokens, width), dtype=dtype),
        "prompt_attention_mask": torch.ones((batch, tokens), dtype=torch.long),
    }


def _guide_true(arguments: Arguments) -> Arguments:
    return {**negate(arguments), "true_cfg_scale": 4.0}


def guide(arguments: Arguments) -> Arguments:
    """Return the arguments of a call with a negative prompt."""
    return {**negate(arguments), "guidance_scale": 5.0}


_CLIP = Encoder(max_tokens=77, hidden_states=True)
_T5 = Encoder(max_tokens=0)
DRIVES: Mapping[str, Drive] = {
    "StableDiffusionPipeline": Drive(
        pixel_step=64,
        latent_pixels=8,
        max_tokens=77,
        encoders={"text_encoder": Encoder(max_tokens=77)},
        embed=_embed_cross,
        guide=guide,
        plain={"guidance_scale": 1.0},
        scheduler=EulerScheduler,
        decode=decode_scaled,
        options={"requires_safety_checker": False},
    ),
    "StableDiffusionXLPipeline": Drive(
        pixel_step=32,
        latent_pixels=8,
        max_tokens=77,
        encoders={"text_encoder": _CLIP, "text_encoder_2": _CLIP},
        embed=_embed_pooled(1280),
        guide=guide,
        plain={"guidance_scale": 1.0},
        scheduler=EulerScheduler,
        decode=decode_xl,
    ),
    "StableDiffusion3Pipeline": Drive(
        pixel_step=16,
        latent_pixels=8,
        max_tokens=256,
        fixed_tokens=77,
        encoders={"text_encoder": _CLIP, "text_encoder_2": _CLIP, "text_encoder_3": _T5},
        embed=_embed_pooled(2048),
        guide=guide,
        plain={"guidance_scale": 1.0},
        decode=decode_shifted,
    ),
    "FluxPipeline": Drive(
        pixel_step=16,
        latent_pixels=8,
        max_tokens=512,
        encoders={"text_encoder": Encoder(max_tokens=77), "text_encoder_2": _T5},
        embed=_embed_pooled(768),
        guide=_guide_true,
        decode=decode_flux,
    ),
    "QwenImagePipeline": Drive(
        pixel_step=16,
        latent_pixels=8,
        max_tokens=512,
        encoders={
            "text_encoder": Encoder(max_tokens=0, template_tokens=34, hidden_states=True, mask=True)
        },
        embed=_embed_qwen,
        guide=_guide_true,
        decode=decode_qwen,
    ),
    "WanPipeline": Drive(
        pixel_step=16,
        latent_pixels=8,
        frame_step=4,
        max_tokens=512,
        encoders={"text_encoder": Encoder(max_tokens=0, mask=True)},
        embed=_embed_text,
        guide=guide,
        plain={"guidance_scale": 1.0},
        decode=decode_wan,
    ),
    "HunyuanVideoPipeline": Drive(
        pixel_step=16,
        latent_pixels=8,
        frame_step=4,
        max_tokens=256,
        encoders={
            "text_encoder": Encoder(
                max_tokens=0, template_tokens=95, hidden_states=True, mask=True
            ),
            "text_encoder_2": Encoder(max_tokens=77),
        },
        embed=_embed_hunyuan,
        guide=_guide_true,
        decode=decode_hunyuan,
    ),
    "LTXPipeline": Drive(
        pixel_step=32,
        latent_pixels=32,
        frame_step=8,
        max_tokens=128,
        encoders={"text_encoder": _T5},
        embed=_embed_ltx,
        guide=guide,
        plain={"guidance_scale": 1.0},
        decode=decode_ltx,
    ),
}
"""By the class that ``model_index.json`` names."""
