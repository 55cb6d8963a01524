"""Arguments of a pipeline's parts."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from service.estimator.pipelines.extents import Extents
from worker.probes.pipelines.drives import Drive, Encoder, get_denoiser

_SHORT = 3
"""Blocks of each list that are run: a first, a middle and a last one; all of them prove it."""


def count_tensor_bytes(arguments: Mapping[str, Any]) -> int:
    """Return the bytes of the tensors that a call is given."""
    parts = (part for value in arguments.values() for part in _list_parts(value))
    return sum(part.untyped_storage().nbytes() for part in parts)


def _list_parts(value: object) -> list[torch.Tensor]:
    parts = value if isinstance(value, list) else [value]
    return [part for part in parts if isinstance(part, torch.Tensor)]


def set_tokens(extents: Extents, encoder: Encoder) -> Extents:
    """Return the extents of a text encoder's prompts."""
    tokens = encoder.max_tokens or extents.tokens
    return Extents(batch=extents.batch, height=1, width=1, frames=1, tokens=tokens)


def encode_prompts(
    module: nn.Module, encoder: Encoder, extents: Extents, end: Callable[[], None]
) -> object:
    """Call a text encoder as its pipeline does."""
    ids = torch.zeros((extents.batch, extents.tokens), dtype=torch.long)
    named: dict[str, Any] = {"output_hidden_states": encoder.hidden_states}
    if encoder.mask:
        named["attention_mask"] = torch.ones_like(ids)
    if not encoder.cache:
        named["use_cache"] = False
    output = module(ids, **named)
    if encoder.layers:
        # (``_get_qwen3_prompt_embeds`` and ``_get_mistral_3_small_prompt_embeds``.)
        stacked = torch.stack([output.hidden_states[layer] for layer in encoder.layers], dim=1)
        embeds = stacked.permute(0, 2, 1, 3).flatten(2)
        end()
        return output, stacked, embeds
    end()
    return output


def make_latents(drive: Drive, pipe: Any, extents: Extents, dtype: torch.dtype) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    """Return latents as the loop leaves them."""
    denoiser = get_denoiser(pipe)
    channels = denoiser.config.in_channels
    dtype = drive.latents_dtype or dtype
    side = drive.pixel_step // drive.latent_pixels
    height, width = extents.height * side, extents.width * side
    if hasattr(pipe, "_pack_latents"):
        tokens = extents.height * extents.width * extents.frames
        return torch.zeros((extents.batch, tokens, channels), dtype=dtype)
    if drive.frame_step:
        return torch.zeros((extents.batch, channels, extents.frames, height, width), dtype=dtype)
    return torch.zeros((extents.batch, channels, height, width), dtype=dtype)


def shorten(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with a few blocks of each list."""
    short = dict(config)
    dual = short.get("dual_attention_layers")
    if dual:
        short["dual_attention_layers"] = [0, 1]
        short["num_layers"] = 2 + _SHORT
        return short
    for field in ("num_layers", "num_single_layers"):
        if isinstance(short.get(field), int):
            short[field] = min(short[field], _SHORT)
    return short
