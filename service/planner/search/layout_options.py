"""What a search tries: a layout in one way to train or to serve, and the batches that run in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Checkpointing, Offload, Quantization
from service.planner.search.strategies import Way

RECOMPUTED = (Checkpointing.FULL, Checkpointing.SELECTIVE, Checkpointing.NONE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slot:
    """One layout in one way, without its batch and its recomputation; a space has one object for each."""

    way: Way
    layout: Layout
    offload: Offload
    quantization: Quantization | None = None


class Batch(NamedTuple):
    """What decides a slot's activations, each the less the smaller; ``flying`` micro batches are in a pipeline at once."""

    recomputed: int
    micro_batch_size: int
    flying: int
    steps: int

    @property
    def keeps_everything(self) -> bool:
        """Whether backward computes nothing again."""
        return self.recomputed == len(RECOMPUTED) - 1

    def sized(self, micro_batch_size: int) -> "Batch":
        """Return the same batch with another number of sequences at once."""
        return Batch(self.recomputed, micro_batch_size, self.flying, self.steps)

    def dominates(self, other: "Batch") -> bool:
        """Whether this needs at least the memory of another batch of the same slot."""
        return (
            self.recomputed >= other.recomputed
            and self.micro_batch_size >= other.micro_batch_size
            and self.flying >= other.flying
            and (self.steps > 1) >= (other.steps > 1)
        )


def cheapest_of(batches: Sequence[Batch]) -> Batch:
    """Return the batch with the least time per token, and less: the largest of everything, and nothing computed again."""
    return Batch(
        recomputed=max(batch.recomputed for batch in batches),
        micro_batch_size=max(batch.micro_batch_size for batch in batches),
        flying=1,
        steps=max(batch.steps for batch in batches),
    )
