"""Decoding of latents as pipelines do it after their loops.

(``__call__`` of diffusers 0.42, ``pipelines/<name>/pipeline_<name>.py``.)
"""

from typing import Any

import torch

from service.estimator.pipelines.extents import Extents


def _postprocess(pipe: Any, image: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    processed: torch.Tensor = pipe.image_processor.postprocess(image, output_type="pt")
    return processed


def decode_scaled(pipe: Any, latents: torch.Tensor, _extents: Extents) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    """Decode as StableDiffusionPipeline does."""
    image = pipe.vae.decode(latents / pipe.vae.config.scaling_factor, return_dict=False)[0]
    return _postprocess(pipe, image)


def decode_xl(pipe: Any, latents: torch.Tensor, _extents: Extents) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    """Decode as StableDiffusionXLPipeline does."""
    latents = latents.to(pipe.vae.dtype) / pipe.vae.config.scaling_factor
    image = pipe.vae.decode(latents, return_dict=False)[0]
    return _postprocess(pipe, image)


def decode_shifted(pipe: Any, latents: torch.Tensor, _extents: Extents) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    """Decode as StableDiffusion3Pipeline does."""
    config = pipe.vae.config
    latents = (latents / config.scaling_factor) + config.shift_factor
    image = pipe.vae.decode(latents, return_dict=False)[0]
    return _postprocess(pipe, image)


def decode_flux(pipe: Any, latents: torch.Tensor, extents: Extents) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    """Decode as FluxPipeline does."""
    height, width = extents.height * 16, extents.width * 16
    latents = pipe._unpack_latents(latents, height, width, pipe.vae_scale_factor)  # noqa: SLF001 - the pipeline's own step
    return decode_shifted(pipe, latents, extents)


def _denormalize(pipe: Any, latents: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    """Return latents of Wan's decoders in their own scale."""
    latents = latents.to(pipe.vae.dtype)
    shape = (1, pipe.vae.config.z_dim, 1, 1, 1)
    mean = torch.zeros(shape, dtype=latents.dtype)
    std = torch.ones(shape, dtype=latents.dtype)
    return latents / std + mean


def decode_qwen(pipe: Any, latents: torch.Tensor, extents: Extents) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    """Decode as QwenImagePipeline does."""
    height, width = extents.height * 16, extents.width * 16
    latents = pipe._unpack_latents(latents, height, width, pipe.vae_scale_factor)  # noqa: SLF001 - the pipeline's own step
    latents = _denormalize(pipe, latents)
    image = pipe.vae.decode(latents, return_dict=False)[0][:, :, 0]
    return _postprocess(pipe, image)


def decode_wan(pipe: Any, latents: torch.Tensor, _extents: Extents) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    """Decode as WanPipeline does."""
    latents = _denormalize(pipe, latents)
    video = pipe.vae.decode(latents, return_dict=False)[0]
    return _postprocess_video(pipe, video)


def _postprocess_video(pipe: Any, video: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    processed: torch.Tensor = pipe.video_processor.postprocess_video(video, output_type="pt")
    return processed


def decode_hunyuan(pipe: Any, latents: torch.Tensor, _extents: Extents) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    """Decode as HunyuanVideoPipeline does."""
    latents = latents.to(pipe.vae.dtype) / pipe.vae.config.scaling_factor
    video = pipe.vae.decode(latents, return_dict=False)[0]
    return _postprocess_video(pipe, video)


def decode_ltx(pipe: Any, latents: torch.Tensor, extents: Extents) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    """Decode as LTXPipeline does."""
    sizes = (extents.frames, extents.height, extents.width)
    patches = (pipe.transformer_spatial_patch_size, pipe.transformer_temporal_patch_size)
    latents = pipe._unpack_latents(latents, *sizes, *patches)  # noqa: SLF001 - the pipeline's own step
    latents = pipe._denormalize_latents(  # noqa: SLF001 - the pipeline's own step
        latents, pipe.vae.latents_mean, pipe.vae.latents_std, pipe.vae.config.scaling_factor
    )
    latents = latents.to(pipe.vae.dtype)
    video = pipe.vae.decode(latents, None, return_dict=False)[0]
    return _postprocess_video(pipe, video)


def decode_flux_2(pipe: Any, latents: torch.Tensor, extents: Extents) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    """Decode as Flux2Pipeline does; latents are scattered picture by picture, then stacked."""
    unpacked = torch.zeros_like(latents).permute(0, 2, 1).contiguous()
    latents = unpacked.view(*unpacked.shape[:2], extents.height, extents.width)
    del unpacked
    bn = pipe.vae.bn
    mean = bn.running_mean.view(1, -1, 1, 1).to(latents.dtype)
    std = torch.sqrt(bn.running_var.view(1, -1, 1, 1) + pipe.vae.config.batch_norm_eps)
    latents = latents * std.to(latents.dtype) + mean
    latents = pipe._unpatchify_latents(latents)  # noqa: SLF001 - the pipeline's own step
    image = pipe.vae.decode(latents, return_dict=False)[0]
    return _postprocess(pipe, image)


def decode_z_image(pipe: Any, latents: torch.Tensor, extents: Extents) -> torch.Tensor:  # noqa: ANN401 - a pipeline of diffusers
    """Decode as ZImagePipeline does."""
    return decode_shifted(pipe, latents.to(pipe.vae.dtype), extents)
