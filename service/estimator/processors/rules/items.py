"""Items as a processor hands them to a model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Crop:
    """Equal pieces that an encoder reads, each by itself.

    ``height`` and ``width`` are pixels of a piece; of audio they are 1 and its frames, or samples.
    ``positions`` are those that the encoder's layers have of one piece.
    """

    count: int
    height: int
    width: int
    positions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One image, video or stretch of audio.

    ``features`` are the encoder's outputs that take placeholders' places in the sequence, and
    ``markers`` the special tokens that the processor writes around them.
    """

    features: int
    markers: int = 0
    crops: tuple[Crop, ...]

    @property
    def tokens(self) -> int:
        """Tokens of the sequence that the item takes."""
        return self.features + self.markers

    @property
    def pieces(self) -> int:
        """Pieces that the encoder reads."""
        return sum(crop.count for crop in self.crops)

    @property
    def positions(self) -> int:
        """Positions of the encoder, all pieces together."""
        return sum(crop.count * crop.positions for crop in self.crops)
