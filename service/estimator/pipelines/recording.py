"""Recorded pipelines of diffusers: weights by component and module, and passes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from service.estimator.pipelines.logs import Log, Peaks, Polynomial
from service.estimator.values.dtypes import DType

FORMATS = (DType.BF16, DType.FP16, DType.FP32)
"""Number formats of components, in the order of a recording's rows."""


class Role(StrEnum):
    """Part of a component in a call."""

    ENCODER = "encoder"
    DENOISER = "denoiser"
    DECODER = "decoder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One tensor of a module, with an element's bytes by format."""

    numel: int
    itemsizes: tuple[int, int, int]

    def count_bytes(self, dtype: DType) -> int:
        """Return its bytes where the component is loaded in a format."""
        return self.numel * self.itemsizes[FORMATS.index(dtype)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedComponent:
    """A component with the tensors of each of its modules.

    ``blocks`` are the lists that group offloading takes apart.
    """

    name: str
    class_name: str
    library: str
    role: Role
    num_parameters: int
    blocks: tuple[str, ...]
    modules: Mapping[str, tuple[Weight, ...]]
    config: Mapping[str, object]

    def count_bytes(self, dtype: DType) -> int:
        """Return the bytes of its weights and buffers."""
        return sum(
            weight.count_bytes(dtype) for weights in self.modules.values() for weight in weights
        )

    def list_tensors(self, dtype: DType) -> list[int]:
        """Return the bytes of each tensor in the order of loading."""
        return [weight.count_bytes(dtype) for part in self.modules.values() for weight in part]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Tokens of prompts; 0 where the workload says how many."""

    max_tokens: int
    template_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPipeline:
    """A pipeline's components and passes, with what they were recorded with."""

    name: str
    class_name: str
    releases: Mapping[str, str]
    sources: Mapping[str, str]
    pixel_step: int
    frame_step: int
    """Frames of a latent frame after the first; 0 for images."""
    max_tokens: int
    fixed_tokens: int
    prompts: Mapping[str, Prompts]
    components: Mapping[str, RecordedComponent]
    passes: Mapping[str, Log | Peaks]
    inputs: Mapping[str, Polynomial]
    """Bytes of the embeddings that the loop is called with, guided and plain, in 16 bits."""
    tile_outputs: Mapping[str, Polynomial] = field(default_factory=dict)
    """Bytes of a decoded tile of a video's VAE by its latents, by format."""
    token_multiple: int = 1
    """Tokens of a picture and of a prompt are padded to a multiple of this."""

    @property
    def makes_video(self) -> bool:
        """Whether it makes videos, not images."""
        return self.frame_step > 0

    @property
    def denoisers(self) -> tuple[RecordedComponent, ...]:
        """The networks that the loop calls, one at a time."""
        return tuple(part for part in self.components.values() if part.role is Role.DENOISER)

    @property
    def has_free_tokens(self) -> bool:
        """Whether the workload says how many tokens a prompt has."""
        return any(part.max_tokens == 0 for part in self.prompts.values())
