"""Chunks of a scan over sequences."""

from dataclasses import dataclass

from service.estimator.model.recording import Recording
from service.estimator.tape import sizes
from service.estimator.tape.sizes import Size
from service.estimator.values.units import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """Division of sequences into the chunks of a scan.

    ``count`` chunks of ``side`` positions, the last ``padding`` of them zeros.
    """

    side: int
    count: int
    padding: int
    batched: bool

    @property
    def is_single_chunk(self) -> bool:
        """Whether there is one chunk of one sequence.

        Then each head's matrix lies in order, and no product copies it.
        """
        return self.count == 1 and not self.batched

    @property
    def has_several_chunks(self) -> bool:
        """Whether there is more than one chunk.

        Then hidden states, which padding lays out channel by channel, are copied.
        """
        return self.count > 1

    def padded(self, per_token: int) -> Size:
        """Return so many elements for every position, padding included."""
        return sizes.add(sizes.per_token(per_token), sizes.per_sequence(per_token * self.padding))

    def per_chunk(self, elements: int, *, more: int = 0) -> Size:
        """Return so many elements for each chunk of each sequence.

        ``more`` chunks are added to each sequence's own.
        """
        return sizes.per_sequence(elements * (self.count + more))


def split_chunks(ctx: Recording, side: int) -> Chunks:
    """Return the chunks of ``side`` positions that the recorded length has."""
    assert ctx.settings.length is not None  # noqa: S101 - a model with chunks is recorded for one length
    count = ceil_div(ctx.settings.length, side)
    return Chunks(
        side=side,
        count=count,
        padding=count * side - ctx.settings.length,
        batched=ctx.settings.batched,
    )
