"""Units of FSDP1 (torch 2.13 ``distributed/fsdp/_runtime_utils.py``): each gathered into one flat buffer, which is it.

Parameters are views of that buffer, so that nothing is copied out. The order of events was read off logged runs. The root stays
gathered after forward; backward begins with the last block gathered ahead (``BACKWARD_PRE``), and each block gathers the one
before it, in the order in which units ended their forward. Where adapters are units of their own (PEFT's
``fsdp_auto_wrap_policy`` makes one of every trained layer), a block gathers one of its adapters ahead, and the first of them
gathers the block before: at the end of this one's backward. A reentrant checkpoint runs its forward without a graph, so that
no unit expects a backward, and none is gathered ahead.
"""

from collections.abc import Callable

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.units import Gathering, Units


class FlatUnits(Units):
    """The buffers of flat parameters during one step.

    ``lagging``: a block that is dropped waits for the GPU. Its memory was used on two streams, and can be handed out again
    when the GPU is done with it: the limiter of all-gathers (``_limiter_utils.py``) lets the CPU be no more than one ahead.
    """

    def __init__(self, tape: Tape, how: Gathering, *, lagging: bool = False) -> None:
        """Start with nothing gathered."""
        super().__init__(tape, how)
        self.lagging = lagging
        self._waiting: list[Storage] = []
        self._ahead: list[Storage] = []
        self._last = self._following = 0

    def run(self, block: Callable[[Value], Value], x: Value, *, elements: int, trained: int) -> Value:
        """Run a block, and remember what backward would begin with."""
        self._last = elements
        return super().run(block, x, elements=elements, trained=trained)

    def end_forward(self) -> None:
        """Gather the block that backward begins with: the root does, when its own comes by."""
        if self.how.reshard and self.how.ahead:
            self._ahead = self._weights(self._last)

    def _before_backward(self, weights: list[Storage], elements: int, following: int) -> None:
        self._root_gradients += self.tape.collected or []
        self.tape.collected = []
        if not self.how.reshard:
            return
        weights += self._ahead or self._weights(elements)
        self._following, self._ahead = following, []
        if not self.how.adapters_apart:
            self._gather_ahead()

    def _after_backward(self, weights: list[Storage], elements: int, trained: int, *, named: int = 0) -> None:
        if self.how.reshard and self.how.adapters_apart:
            self._gather_ahead()
        super()._after_backward(weights, elements, trained, named=named)

    def _release(self, storages: list[Storage]) -> None:
        weights = self.lagging and any(
            storage.category is Category.GATHERED_WEIGHTS and storage.size != sizes.ZERO for storage in storages
        )
        if not weights:
            super()._release(storages)
            return
        super()._release(self._waiting)
        self._waiting.extend(storages)
        storages.clear()

    def _gather_ahead(self) -> None:
        if self._following and self.how.ahead:
            self._ahead = self._weights(self._following)

    def _buffer(self, _: int) -> Storage:
        return self._gathered(0)

    def _weights(self, elements: int) -> list[Storage]:
        return [self._gathered(elements)]
