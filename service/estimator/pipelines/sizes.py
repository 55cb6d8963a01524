"""Extents of a pipeline's call, by its workload."""

from fractions import Fraction

from service.estimator.pipelines.extents import Extents
from service.estimator.pipelines.recording import RecordedPipeline
from service.estimator.pipelines.tiling import Tiles
from service.estimator.pipelines.workload import GenerateWorkload
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.units import ceil_div

_TILED = ("AutoencoderKL", "AutoencoderKLFlux2")
"""VAEs of pictures; those of videos have tiles of their own (``video_tiles``)."""
_MIN_TILE = 8
"""Latents of a tile's side: a tile of fewer makes no step, or millions of tiles of a picture."""


def read_extents(pipeline: RecordedPipeline, workload: GenerateWorkload) -> Extents:
    """Return the extents of the loop and of the decoder.

    Sides that are no whole number of steps are rounded up. Raises InvalidInputError for sides that
    the pipeline itself refuses and for frames that it has not.
    """
    _check_sides(pipeline, workload)
    step = pipeline.pixel_step
    return Extents(
        batch=workload.batch,
        height=ceil_div(workload.height, step),
        width=ceil_div(workload.width, step),
        frames=_count_frames(pipeline, workload),
        tokens=count_tokens(pipeline, workload),
    )


def list_rounded(pipeline: RecordedPipeline, workload: GenerateWorkload) -> list[str]:
    """Return what was rounded up, in words."""
    step = pipeline.pixel_step
    return [
        f"{name} = {side} is counted as {ceil_div(side, step) * step}, the next multiple of "
        f"{step}: an upper bound"
        for name, side in (("height", workload.height), ("width", workload.width))
        if side % step
    ]


def _check_sides(pipeline: RecordedPipeline, workload: GenerateWorkload) -> None:
    unit = 8 if pipeline.class_name.startswith("StableDiffusion") else pipeline.pixel_step
    for name in ("height", "width"):
        side = getattr(workload, name)
        if side % unit:
            message = f"{side} is no multiple of {unit}, and {pipeline.class_name} refuses it"
            raise InvalidInputError(message, field=f"workload.{name}")


def _count_frames(pipeline: RecordedPipeline, workload: GenerateWorkload) -> int:
    if not pipeline.makes_video:
        if workload.num_frames != 1:
            message = f"{workload.num_frames} of a pipeline that makes images"
            raise InvalidInputError(message, field="workload.num_frames")
        return 1
    if (workload.num_frames - 1) % pipeline.frame_step:
        message = (
            f"{workload.num_frames} is not 1 more than a multiple of {pipeline.frame_step}, as "
            f"{pipeline.class_name} takes them"
        )
        raise InvalidInputError(message, field="workload.num_frames")
    return (workload.num_frames - 1) // pipeline.frame_step + 1


def count_tokens(pipeline: RecordedPipeline, workload: GenerateWorkload) -> int:
    """Return the tokens of a prompt that the workload may set."""
    tokens = workload.max_sequence_length
    if tokens is None:
        return pipeline.max_tokens
    if not pipeline.has_free_tokens:
        message = f"prompts of {pipeline.class_name} have {pipeline.max_tokens} tokens, always"
        raise InvalidInputError(message, field="workload.max_sequence_length")
    if not 1 <= tokens <= 4096:  # noqa: PLR2004 - beyond what any of these takes
        message = f"{tokens}, and must be from 1 to 4096"
        raise InvalidInputError(message, field="workload.max_sequence_length")
    return tokens


def read_tiles(pipeline: RecordedPipeline, workload: GenerateWorkload) -> Tiles | None:
    """Return the tiles of a decoding; None where it is not tiled.

    Raises NotModelledError for a decoder of another class.
    """
    vae = pipeline.components["vae"]
    if not (workload.vae_tiling or workload.vae_slicing):
        return None
    if vae.class_name not in _TILED:
        message = f"tiles and slices of {vae.class_name}"
        field = "workload.vae_tiling" if workload.vae_tiling else "workload.vae_slicing"
        raise NotModelledError(message, field=field, modelled=list(_TILED))
    if not workload.vae_tiling:
        return None
    channels = vae.config.get("block_out_channels")
    sample = vae.config.get("sample_size")
    factor = 2 ** (len(channels) - 1) if isinstance(channels, list) and channels else 0
    if not factor or not isinstance(sample, int) or sample // factor < _MIN_TILE:
        message = f"sample_size {sample!r}: tiles need {_MIN_TILE} latents and block_out_channels"
        raise InvalidInputError(message, field="workload.vae_tiling")
    return Tiles(
        height=ceil_div(workload.height, factor),
        width=ceil_div(workload.width, factor),
        side=sample // factor,
        latent_steps=int(Fraction(pipeline.pixel_step, factor)),
    )
