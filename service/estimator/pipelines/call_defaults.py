"""Sizes that a pipeline's call has where none are named."""

from typing import NamedTuple

from service.estimator.pipelines.recording import RecordedPipeline
from service.estimator.values.errors import InvalidInputError

_LATENT_PIXELS = 8
"""Pixels of a latent's side, by the four levels of Stable Diffusion's ``block_out_channels``."""


class CallSize(NamedTuple):
    """Pixels of a picture, and frames of a video, 1 for images."""

    height: int
    width: int
    num_frames: int = 1


_SQUARE = CallSize(1024, 1024)
_SIZES = {
    "Flux2KleinPipeline": _SQUARE,
    "Flux2Pipeline": _SQUARE,
    "FluxPipeline": _SQUARE,
    "HunyuanVideoPipeline": CallSize(720, 1280, 129),
    "LTXPipeline": CallSize(512, 704, 161),
    "QwenImagePipeline": _SQUARE,
    "WanPipeline": CallSize(480, 832, 81),
    "ZImagePipeline": _SQUARE,
}
"""Defaults of ``__call__``, or its ``default_sample_size`` (diffusers 0.42.1, pipelines)."""


def get_call_size(pipeline: RecordedPipeline) -> CallSize:
    """Return the size of a call that names none.

    Classes that are not listed have the ``sample_size`` of what denoises, in latents. Raises
    InvalidInputError where that is not known.
    """
    listed = _SIZES.get(pipeline.class_name)
    if listed is not None:
        return listed
    side = pipeline.denoisers[0].config.get("sample_size")
    if not isinstance(side, int):
        message = f"required: the size of a call of {pipeline.class_name} is not known here"
        raise InvalidInputError(message, field="workload.height")
    return CallSize(side * _LATENT_PIXELS, side * _LATENT_PIXELS)
