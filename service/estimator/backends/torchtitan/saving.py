"""Outputs that selective checkpointing saves of a recomputed block.

(torchtitan ``activation_checkpoint.py``.)
"""

from collections.abc import Callable

from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.sizes import Size


class SavedOutputs:
    """Outputs saved for the recomputation of a block.

    They are attention's outputs and those of every second product, the first one included; the
    second forward takes them. ``saved`` belongs to one block and outlives the call: the first
    forward fills it, the recomputation empties it.
    """

    def __init__(self, tape: Tape, saved: list[list[Storage]], *, selects: bool) -> None:
        """Start a forward of a block; without ``selects`` nothing is saved."""
        self.tape, self.saved, self.selects = tape, saved, selects
        self._products = 0

    def save_product(self, make: Callable[[], Value]) -> Value:
        """Return a matrix product, saved if its number is odd.

        The products of a block are counted from 1.
        """
        self._products += 1
        return self._save(make) if self._products % 2 else make()

    def save_attention(self, make: Callable[[], Value], statistics: Size) -> Value:
        """Return attention, saved with its ``statistics``.

        These are the bytes of one fp32 per row.
        """
        return self._save(make, statistics)

    def save_reduced(self, make: Callable[[], Value]) -> Value:
        """Return the output of a reduce-scatter, saved."""
        return self._save(make)

    def _save(self, make: Callable[[], Value], *statistics: Size) -> Value:
        tape = self.tape
        if not self.selects:
            return make()
        if tape.mode is Mode.RECOMPUTING:
            tape.reusable_storages.extend(self.saved.pop(0))
            return make()
        result = make()
        if tape.mode is Mode.DISCARDING and result.storage is not None:
            self.saved.append(
                [
                    *(tape.allocate(Category.ACTIVATIONS, size) for size in statistics),
                    tape.hold(result.storage),
                ],
            )
        return result
