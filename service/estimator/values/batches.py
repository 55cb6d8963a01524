"""Sequences of a micro batch: their rows, and inputs beside text."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from service.estimator.values.errors import InvalidInputError
from service.estimator.values.losses import Loss

MAX_SIDE, MAX_COUNT, MAX_SECONDS = 100_000, 10_000, 86_400
"""Pixels of a side, items or frames, and seconds that a request may name."""


class SequencePacking(StrEnum):
    """Way in which the sequences of a micro batch become rows."""

    NONE = "none"
    """a row each, padded to the longest"""
    PADDING_FREE = "padding_free"
    """one row of all of them, one after another (TRL's ``padding_free``)"""
    PACKED = "packed"
    """one row of blocks that are filled with sequences (TRL's ``packing``)"""


def check_at_least(name: str, value: int, lowest: int = 1) -> None:
    """Refuse a count below the lowest that there can be."""
    if value < lowest:
        message = f"{name.rpartition('.')[2]} is {value}; it must be {lowest} or more"
        raise InvalidInputError(message, field=name)


def check_probability(name: str, value: float) -> None:
    """Refuse a share that is negative, or all."""
    if not 0 <= value < 1:
        message = f"{name.rpartition('.')[2]} is {value}; it must be 0 or more, and below 1"
        raise InvalidInputError(message, field=name)


Lengths = tuple[tuple[int, int], ...]
"""Tokens of sequences and how many have them, the longest first."""


def count_lengths(lengths: Sequence[int]) -> Lengths:
    """Return how many sequences have each length."""
    return tuple(sorted(Counter(lengths).items(), reverse=True))


def get_row_length(
    packing: SequencePacking, lengths: Lengths, *, num_sequences: int, max_length: int
) -> int:
    """Return the tokens of a row of the worst batch.

    Longer sequences are cut to ``max_length``. Without ``lengths`` all have as many.
    """
    if packing is SequencePacking.PACKED or not lengths:
        return max_length * (1 if packing is SequencePacking.NONE else num_sequences)
    longest = min(lengths[0][0], max_length)
    if packing is SequencePacking.NONE:
        return longest
    tokens, left = 0, num_sequences
    for length, count in lengths:
        tokens += min(length, max_length) * min(count, left)
        left -= min(count, left)
    return tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """An evaluation between steps, as transformers' Trainer runs it.

    ``kept_batches`` are those whose logits are on the GPU together, as ``compute_metrics`` needs
    them; with none there are losses alone. None counts none, and says that nobody told.
    """

    batch_size: int = 8
    sequence_length: int | None = None
    """Tokens of a sequence; None is as many as a step's have."""
    kept_batches: int | None = None
    loss: Loss | None = None
    """Treatment of its logits; None is that of a step, where its trainer has no other."""

    def __post_init__(self) -> None:
        """Refuse counts that no evaluation has."""
        check_at_least("workload.evaluation.batch_size", self.batch_size)
        if self.kept_batches is not None:
            check_at_least("workload.evaluation.kept_batches", self.kept_batches, 0)
        if self.sequence_length is not None:
            check_at_least("workload.evaluation.sequence_length", self.sequence_length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Equal images, in pixels."""

    width: int
    height: int
    count: int = 1

    def __post_init__(self) -> None:
        """Refuse sides and counts out of range."""
        _check_sides("images", self.width, self.height)
        _check_range("images.count", self.count, MAX_COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """Equal videos: frames that the model reads, and their pixels."""

    frames: int
    width: int
    height: int
    count: int = 1

    def __post_init__(self) -> None:
        """Refuse sides and counts out of range."""
        _check_sides("videos", self.width, self.height)
        _check_range("videos.frames", self.frames, MAX_COUNT)
        _check_range("videos.count", self.count, MAX_COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """Equal stretches of audio, in seconds."""

    seconds: float
    count: int = 1

    def __post_init__(self) -> None:
        """Refuse lengths and counts out of range."""
        if not 0 < self.seconds <= MAX_SECONDS:
            message = f"audio.seconds is {self.seconds}; it must be above 0 and up to {MAX_SECONDS}"
            raise InvalidInputError(message, field="workload.inputs.audio")
        _check_range("audio.count", self.count, MAX_COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Items of each sequence beside its text.

    ``processor`` has the fields of a preprocessor_config.json that differ from the defaults.
    """

    images: tuple[Picture, ...] = ()
    videos: tuple[Clip, ...] = ()
    audio: tuple[Sound, ...] = ()
    alone: bool = False
    """Whether a request says no tokens beside them, so that they are all that a model reads."""
    processor: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def num_images(self) -> int:
        """Number of images, all sizes together."""
        return sum(picture.count for picture in self.images)


def _check_sides(kind: str, width: int, height: int) -> None:
    _check_range(f"{kind}.width", width, MAX_SIDE)
    _check_range(f"{kind}.height", height, MAX_SIDE)


def _check_range(name: str, value: int, limit: int) -> None:
    if not 1 <= value <= limit:
        message = f"{name} is {value}; it must be from 1 to {limit}"
        raise InvalidInputError(message, field=f"workload.inputs.{name.partition('.')[0]}")
