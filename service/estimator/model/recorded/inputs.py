"""Pixels and audio that a recorded model reads in place of tokens."""

from dataclasses import dataclass
from enum import StrEnum

from service.estimator.values.errors import InvalidInputError
from service.estimator.values.units import ceil_div

INPUT_NUMBERS = ("height", "width", "frames", "step", "offset", "per_second")
"""Fields of an input that are counts."""


class InputKind(StrEnum):
    """Kinds of items."""

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedInput:
    """The one item of a sequence: image, video or audio.

    ``shape`` is that of one item, without the batch; 0 stands for the axis that grows with the
    length. Images and videos are of one size, and so is audio in windows: their length is 1.
    """

    name: str
    """Argument of the model's ``forward``."""
    kind: InputKind
    shape: tuple[int, ...]
    height: int = 0
    """Pixels of an image or of a frame, as the model takes them."""
    width: int = 0
    frames: int = 0
    step: int = 1
    """Samples, or frames of a spectrogram, in one step of the length."""
    offset: int = 0
    """Samples that come before the first step, as convolutions without padding read them."""
    per_second: int = 0
    """Samples, or frames of a spectrogram, in a second."""

    def __post_init__(self) -> None:
        """Refuse sizes that no item has."""
        if not self.shape or self.step < 1 or not (self.per_second or self.height * self.width):
            message = f"an {self.kind} of shape {self.shape} has no size"
            raise InvalidInputError(message, field="reads")

    @property
    def grows(self) -> bool:
        """Whether a longer item is a longer sequence."""
        return 0 in self.shape

    def get_shape(self, length: int) -> tuple[int, ...]:
        """Return the shape of one item at a length."""
        return tuple(axis or self.offset + length * self.step for axis in self.shape)

    def count_steps(self, seconds: float) -> int:
        """Return the length of so much audio, a begun step counted whole."""
        if not self.grows:
            return 1
        return max(ceil_div(round(seconds * self.per_second) - self.offset, self.step), 1)

    def describe(self, number: int, length: int) -> str:
        """Return a batch of items in words."""
        if self.kind is not InputKind.AUDIO:
            return f"{number} {self.kind}s of {self.width} x {self.height} pixels"
        elements = self.offset + length * self.step if self.grows else self.shape[0]
        return f"{number} x {elements / self.per_second:,.4g} s of audio"

    @property
    def step_s(self) -> float:
        """Seconds of a step, or of a window of fixed size."""
        elements = self.step if self.grows else self.shape[0]
        return elements / self.per_second
