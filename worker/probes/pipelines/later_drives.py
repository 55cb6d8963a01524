"""Calls of pipelines of diffusers whose text encoders are language models."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from worker.probes.pipelines.decoders import decode_flux, decode_flux_2, decode_z_image
from worker.probes.pipelines.drives import Arguments, Drive, Encoder, guide, negate
from worker.probes.pipelines.stubs import STEPS


def _prepare_flux_2(pipe: Any) -> None:  # noqa: ANN401 - a pipeline of diffusers
    """Make the indices that a host makes where they are used."""

    def number_text(embeds: torch.Tensor, *_: object) -> torch.Tensor:
        return torch.zeros((*embeds.shape[:2], 4), dtype=torch.long)

    def number_pixels(latents: torch.Tensor) -> torch.Tensor:
        batch, _, height, width = latents.shape
        return torch.zeros((batch, height * width, 4), dtype=torch.long)

    pipe._prepare_text_ids = number_text  # noqa: SLF001 - the pipeline's own step
    pipe._prepare_latent_ids = number_pixels  # noqa: SLF001 - the pipeline's own step
    # Only calls that decode pack their latents by those indices.
    pipe._unpack_latents_with_ids = _stay  # noqa: SLF001 - the pipeline's own step


def _prepare_z_image(pipe: Any) -> None:  # noqa: ANN401 - a pipeline of diffusers
    """Make the tables of positions that the first call makes."""
    pipe.transformer.rope_embedder(torch.zeros((1, 3), dtype=torch.int32))


def _stay(latents: torch.Tensor, _ids: object, height: int, width: int) -> torch.Tensor:
    """Return latents of a call that returns them, unpacked without a copy."""
    channels = latents.permute(0, 2, 1)
    return channels.view(*channels.shape[:2], height, width)


def _embed_joint(pipe: Any, batch: int, tokens: int, dtype: torch.dtype) -> Arguments:  # noqa: ANN401 - a pipeline of diffusers
    width = pipe.transformer.config.joint_attention_dim
    return {"prompt_embeds": torch.zeros((batch, tokens, width), dtype=dtype)}


def _embed_masked(pipe: Any, batch: int, tokens: int, dtype: torch.dtype) -> Arguments:  # noqa: ANN401 - a pipeline of diffusers
    mask = torch.ones((batch, tokens), dtype=dtype)
    return {**_embed_joint(pipe, batch, tokens, dtype), "prompt_attention_mask": mask}


def _embed_listed(pipe: Any, batch: int, tokens: int, dtype: torch.dtype) -> Arguments:  # noqa: ANN401 - a pipeline of diffusers
    width = pipe.transformer.config.cap_feat_dim
    return {"prompt_embeds": [torch.zeros((tokens, width), dtype=dtype) for _ in range(batch)]}


def _make_flux_2(
    layers: tuple[int, ...], guide_call: Callable[[Arguments], Arguments] | None
) -> Drive:
    return Drive(
        pixel_step=16,
        latent_pixels=8,
        max_tokens=512,
        encoders={
            "text_encoder": Encoder(
                max_tokens=0, hidden_states=True, mask=True, cache=False, layers=layers
            )
        },
        embed=_embed_joint,
        guide=guide_call,
        plain={"guidance_scale": 1.0},
        decode=decode_flux_2,
        prepare=_prepare_flux_2,
    )


def _guide_klein(arguments: Arguments) -> Arguments:
    return {**negate(arguments), "guidance_scale": 4.0}


_SIGMAS = [0.5] * STEPS
"""Given, as the pipeline's own would be read from a tensor without values."""


def _guide_z_image(arguments: Arguments) -> Arguments:
    # Beyond 1 no step is left unguided, as with the default of 1; that one reads values.
    return {**guide(arguments), "sigmas": _SIGMAS, "cfg_truncation": 2.0}


LATER_DRIVES: Mapping[str, Drive] = {
    "Flux2Pipeline": _make_flux_2((10, 20, 30), None),
    "Flux2KleinPipeline": _make_flux_2((9, 18, 27), _guide_klein),
    "ZImagePipeline": Drive(
        pixel_step=16,
        latent_pixels=8,
        max_tokens=512,
        encoders={"text_encoder": Encoder(max_tokens=0, hidden_states=True, mask=True)},
        embed=_embed_listed,
        guide=_guide_z_image,
        plain={"guidance_scale": 0.0, "sigmas": _SIGMAS},
        decode=decode_z_image,
        prepare=_prepare_z_image,
        token_multiple=32,
        is_single=True,
        latents_dtype=torch.float32,
    ),
    "ChromaPipeline": Drive(
        pixel_step=16,
        latent_pixels=8,
        max_tokens=512,
        encoders={"text_encoder": Encoder(max_tokens=0, mask=True)},
        embed=_embed_masked,
        guide=guide,
        plain={"guidance_scale": 1.0},
        decode=decode_flux,
    ),
}
"""By the class that ``model_index.json`` names."""
