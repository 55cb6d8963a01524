"""Workload of a pipeline's call, and its offloading."""

from dataclasses import dataclass
from enum import StrEnum

from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError


class PipelineOffload(StrEnum):
    """Where weights are while they do not work.

    ``enable_model_cpu_offload``, ``enable_sequential_cpu_offload`` and ``enable_group_offload`` (by
    blocks) of diffusers.
    """

    NONE = "none"
    MODEL = "model"
    SEQUENTIAL = "sequential"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateWorkload:
    """Images or videos of one call of a pipeline.

    ``num_frames`` is 1 for images. Denoising steps take no memory.
    """

    height: int
    width: int
    num_frames: int = 1
    num_prompts: int = 1
    images_per_prompt: int = 1
    guidance: bool
    """Whether each step also runs a negative prompt (classifier-free guidance)."""
    dtype: DType = DType.BF16
    text_encoder_dtype: DType = DType.BF16
    vae_dtype: DType = DType.BF16
    max_sequence_length: int | None = None
    offloading: PipelineOffload = PipelineOffload.NONE
    blocks_per_group: int = 1
    offload_stream: bool = False
    """Whether the next group of blocks is fetched while one works."""
    decodes: bool = True
    """False where latents are returned as they are (``output_type="latent"``)."""
    vae_tiling: bool = False
    vae_slicing: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers below 1, and words that act on nothing."""
        for name in ("height", "width", "num_frames", "num_prompts", "images_per_prompt"):
            if (value := getattr(self, name)) < 1:
                message = f"{value}, and must be at least 1"
                raise InvalidInputError(message, field=f"workload.{name}")
        groups = self.offloading is PipelineOffload.GROUP
        if self.blocks_per_group != 1 and not groups:
            message = f"{self.blocks_per_group} blocks of a group need offloading = group"
            raise InvalidInputError(message, field="workload.blocks_per_group")
        if self.offload_stream and not groups:
            message = "a stream of its own needs offloading = group"
            raise InvalidInputError(message, field="workload.offload_stream")
        if self.offload_stream and self.blocks_per_group != 1:
            message = f"diffusers streams groups of 1 block, not of {self.blocks_per_group}"
            raise InvalidInputError(message, field="workload.blocks_per_group")

    @property
    def batch(self) -> int:
        """Images or videos at once."""
        return self.num_prompts * self.images_per_prompt
