"""Extents of a generation: what the sizes of its tensors depend on."""

from dataclasses import dataclass

NAMES = ("batch", "height", "width", "frames", "tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extents:
    """Images or videos at once, and the size of one.

    ``height`` and ``width`` count steps of the pipeline's pixels, ``frames`` those of its latents,
    ``tokens`` those of a prompt.
    """

    batch: int
    height: int
    width: int
    frames: int = 1
    tokens: int = 1

    @property
    def numbers(self) -> tuple[int, ...]:
        """The extents in the order of ``NAMES``."""
        return (self.batch, self.height, self.width, self.frames, self.tokens)
