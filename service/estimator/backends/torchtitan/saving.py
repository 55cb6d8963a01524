"""Outputs that selective checkpointing keeps of a block that is computed again (torchtitan ``activation_checkpoint.py``)."""

from collections.abc import Callable

from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.sizes import Size


class SavedOutputs:
    """Keeps attention's outputs and those of every second product, the first one included; the second forward takes them.

    ``kept`` belongs to one block and outlives the call: the first forward fills it, the recomputation empties it.
    """

    def __init__(self, tape: Tape, kept: list[list[Storage]], *, selects: bool) -> None:
        """Start a forward of a block; without ``selects`` nothing is kept."""
        self.tape, self.kept, self.selects = tape, kept, selects
        self._products = 0

    def product(self, make: Callable[[], Value]) -> Value:
        """Return a matrix product, kept if it is an odd one of its block."""
        self._products += 1
        return self._saved(make) if self._products % 2 else make()

    def attention(self, make: Callable[[], Value], statistics: Size) -> Value:
        """Return attention, kept with its ``statistics``, the bytes of one fp32 per row."""
        return self._saved(make, statistics)

    def reduced(self, make: Callable[[], Value]) -> Value:
        """Return the output of a reduce-scatter, kept."""
        return self._saved(make)

    def _saved(self, make: Callable[[], Value], *before: Size) -> Value:
        tape = self.tape
        if not self.selects:
            return make()
        if tape.mode is Mode.RECOMPUTING:
            tape.reused.extend(self.kept.pop(0))
            return make()
        result = make()
        if tape.mode is Mode.DISCARDING and result.storage is not None:
            self.kept.append([*(tape.allocate(Category.ACTIVATIONS, size) for size in before), tape.hold(result.storage)])
        return result
