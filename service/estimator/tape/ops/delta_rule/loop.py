"""Loop over the chunks of a delta rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.sizes import Size


class Kept(Enum):
    """Tensors that a chunk alone keeps.

    Queries and keys are kept where they are copies.
    """

    VALUES = auto()
    STATE = auto()
    QUERIES = auto()
    KEYS = auto()


ChunkKept = Mapping[Kept, Sequence[Storage]]
NUM_VISITED = 2
"""Chunks that backward visits one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLoop:
    """Operands that the loop reads slice by slice, and its state's size.

    ``state`` is for all sequences, and the first one is there; ``outputs`` are written in place.
    ``new_values`` and ``decayed_keys`` are solutions of the triangular system, ``intra_scores`` the
    scores inside of a chunk, ``state_keys`` the keys that update the state, ``final_decay`` its
    decay over a chunk. ``copies_slices``: products read copies of the slices of queries and keys.
    """

    new_values: Value
    decayed_keys: Value
    decayed_queries: Value
    intra_scores: Value
    state_keys: Value
    final_decay: Value
    outputs: Value
    state: Size
    chunk_of_values: Size
    chunk_of_keys: Size
    num_chunks: int
    copies_slices: bool

    @property
    def operands(self) -> tuple[Value, ...]:
        """All operands that are sliced."""
        return (
            self.new_values,
            self.decayed_keys,
            self.decayed_queries,
            self.intra_scores,
            self.state_keys,
            self.final_decay,
        )
