"""Units of FSDP1, each gathered into one flat buffer.

(torch 2.13 ``distributed/fsdp/_runtime_utils.py``.) Parameters are views of that buffer, so that
nothing is copied out. The order of events was read off logged runs. The root stays gathered after
forward; backward begins with the last block gathered ahead (``BACKWARD_PRE``), and each block
gathers the one before it, in the order in which units ended their forward. Where adapters are units
of their own (PEFT's ``fsdp_auto_wrap_policy`` makes one of every trained layer), a block gathers
one of its adapters ahead, and the first of them gathers the block before: at the end of this one's
backward. A reentrant checkpoint runs its forward without a graph, so that no unit expects a
backward, and none is gathered ahead.
"""

from collections.abc import Callable

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.units import COPY_IN_STREAM, FsdpConfig, ShardedUnits


class FlatUnits(ShardedUnits):
    """Buffers of flat parameters during one step.

    ``lagging``: a block that is dropped waits for the GPU. Its memory was used on two streams, and
    can be handed out again when the GPU is done with it: the limiter of all-gathers
    (``_limiter_utils.py``) lets the CPU be no more than one ahead.
    """

    def __init__(self, tape: Tape, config: FsdpConfig, *, lagging: bool = False) -> None:
        """Start with nothing gathered."""
        super().__init__(tape, config)
        self.lagging = lagging
        self._pending_release: list[Storage] = []
        self._prefetched: list[Storage] = []
        self._last_elements = self._following_elements = 0

    def run_block(
        self, block: Callable[[Value], Value], x: Value, *, elements: int, trained: int
    ) -> Value:
        """Run a block, and remember it as the one backward begins with."""
        self._last_elements = elements
        return super().run_block(block, x, elements=elements, trained=trained)

    def return_block(self) -> None:
        """Leave the root as it is."""

    def end_forward(self) -> None:
        """Gather the block that backward begins with.

        The root gathers, when its own turn comes.
        """
        if self.config.reshard and self.config.backward_prefetch:
            self._prefetched = self._gather_weights(self._last_elements)

    def _before_backward(self, weights: list[Storage], elements: int, following: int) -> None:
        self._root_gradients += self.tape.collected_gradients or []
        self.tape.collected_gradients = []
        if not self.config.reshard:
            return
        weights += self._prefetched or self._gather_weights(elements)
        self._following_elements, self._prefetched = following, []
        if not self.config.adapter_units:
            self._prefetch_following()

    def _after_backward(
        self, weights: list[Storage], elements: int, trained: int, *, named_gradients: int = 0
    ) -> None:
        if self.config.reshard and self.config.adapter_units:
            self._prefetch_following()
        super()._after_backward(weights, elements, trained, named_gradients=named_gradients)

    def _release(self, storages: list[Storage]) -> None:
        holds_weights = self.lagging and any(
            storage.category is Category.GATHERED_WEIGHTS and storage.size != sizes.ZERO
            for storage in storages
        )
        if not holds_weights:
            super()._release(storages)
            return
        super()._release(self._pending_release)
        self._pending_release.extend(storages)
        storages.clear()

    def _prefetch_following(self) -> None:
        if self._following_elements and self.config.backward_prefetch:
            self._prefetched = self._gather_weights(self._following_elements)

    def _gather_buffer(self, _: int) -> Storage:
        return self._allocate_gathered(0)

    def _gather_weights(self, elements: int) -> list[Storage]:
        """Gather a flat parameter on a stream of its own (``_unshard``)."""
        self.tape.stream = COPY_IN_STREAM
        weights = self._allocate_gathered(elements)
        self.tape.stream = 0
        return [weights]
