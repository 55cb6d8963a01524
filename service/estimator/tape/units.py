"""Sharded units: what a rank gathers for a block, and the full-size gradients that it reduces after it.

The order of events is FSDP2's (torch/distributed/fsdp/_fully_shard), read off a logged run: a block's all-gather output lives
until the next one is there; in backward the next block is gathered while the current one runs, and the input of a
reduce-scatter lives until the next reduce-scatter.
"""

from collections.abc import Callable
from dataclasses import dataclass

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value
from service.estimator.values.units import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Elements by which uneven shares are filled up: of all that is outside of the blocks, and of the head's unit."""

    outside: int = 0
    head: int = 0


NO_FILLING = Filling()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """Bytes per element of a gathered parameter and of a reduced gradient, and whether blocks are dropped after forward.

    ``adapter_bytes`` are those of an adapter's gathered parameter.
    """

    gather_bytes: int
    adapter_bytes: int
    reduce_bytes: int
    reshard: bool
    alone: bool = False
    """Whether there is a single rank: parameters are copied one by one, without a buffer that all of a unit is gathered in."""
    separate: bool = False
    """Whether the embedding is a unit, and final norm and head are another, which stays gathered until its backward."""
    fetched: bool = False
    """Whether modules are fetched as they come, the first block while the table is read (DeepSpeed's stage 3)."""
    flat: bool = False
    """Whether a unit is one flat parameter, as FSDP1 makes it."""
    adapters_apart: bool = False
    """Whether adapters are units of their own, inside of blocks whose units have no trained weights."""
    cast_over: int | None = None
    """Ranks each of which casts its shares of a unit in one buffer before they are gathered; None where nothing is cast."""
    ahead: bool = True
    """Whether flat parameters are gathered ahead in backward."""
    uneven: int = 1
    """Ranks over which rows of tensors are shared out, where some share is filled up to be as large as the first; else 1."""
    filling: Filling = NO_FILLING

    def widened(self, adapters: int) -> int:
        """Return as how many elements of a gathered parameter so many of adapters count, which may be wider."""
        return ceil_div(adapters * self.adapter_bytes, self.gather_bytes)


class Units:
    """The buffers of sharded units during one step: the root unit holds everything outside of the blocks.

    Where embedding and head are units of their own, the root unit is the embedding's, and gives way to the first block if
    blocks are dropped after forward.
    """

    def __init__(self, tape: Tape, how: Gathering) -> None:
        """Start with nothing gathered."""
        self.tape, self.how = tape, how
        self._outputs: list[Storage] = []
        self._reducing: list[Storage] = []
        self._root: list[Storage] = []
        self._root_gradients: list[Storage] = []
        self._head = self._before = self._outside = self._named = 0
        self._waits = self._loops = False

    def open_root(self, elements: int, block_elements: int, *, head: int = 0, ends_in_head: bool = False) -> None:
        """Gather the root unit; its all-gather output lives until the first block is copied out of its own.

        ``head``: elements of final norm and head, which are no part of the root where they are a unit of their own.
        ``ends_in_head``: the last parameter tensor of either unit is the head's weight, whose gradient is the first one.
        """
        self._loops = not (self.how.alone or self.how.fetched or self.how.flat)
        self._named = int(ends_in_head and self._loops)
        filling = self.how.filling
        self._head = head + filling.head if head and self.how.separate else 0
        elements += filling.outside - self._head
        self._outside, self._before, self._waits = elements, elements if self._head else 0, False
        if self._head and self.how.reshard and self.how.fetched:
            self.tape.hook(lambda: self._root.extend(self._weights(elements)))
        output = self._buffer(elements)
        self._root += self._weights(elements)
        if self.how.fetched:
            self.tape.release(output)
            output = self._buffer(block_elements)
        self._outputs.append(output)
        self.tape.collected = []

    def close_table(self) -> None:
        """Where the embedding is a unit that gives way to blocks, gather it before its own backward."""
        if self._head and self.how.reshard and not self.how.fetched:
            self.tape.hook(self._gather_table)

    def _gather_table(self) -> None:
        self._root.extend(self._weights(self._outside))
        self._release(self._outputs)

    def open_head(self) -> None:
        """Gather final norm and head, where they are a unit: it is reduced as soon as its backward is over."""
        if not self._head:
            return
        elements, output = self._head, self._buffer(self._head)
        weights = self._weights(elements)
        self.tape.hook(lambda: self._after_backward(weights, elements, elements, named=self._named))
        self._release(self._outputs)
        self._outputs.append(output)

    def close_head(self) -> None:
        """Where final norm and head are a unit, gather the last block when backward has the gradient of the logits."""
        if self._head and self.how.reshard and not self.how.fetched:
            self._waits = True
            self.tape.hook(lambda: self._outputs.append(self._buffer(self._before)))

    def close_root(self, elements: int, trained: int) -> None:
        """Reduce the root's gradients, the last of all."""
        outside = self.how.filling.outside
        elements, trained = elements + outside - self._head, trained + (outside if trained else 0) - self._head
        self.tape.release(*self._root)
        self.tape.collected = self._root_gradients + (self.tape.collected or [])
        self._reduce(elements, trained, named=int(self._loops) if self._head else self._named)
        self.tape.release(*self._reducing)

    def end_forward(self) -> None:
        """Drop the last all-gather output and the root, which backward gathers again with the block that it begins with."""
        sizes_ = [output.size for output in self._outputs]
        self._release(self._outputs)
        if not self.how.reshard or self._waits:
            return
        if self._head:
            self._outputs.append(self._buffer(self._before))
            return
        if not self.how.fetched:
            self._gather_root_again()
        self._outputs.extend(self.tape.allocate(Category.GATHERED_WEIGHTS, size) for size in sizes_)

    def _gather_root_again(self) -> None:
        self._release(self._root)
        output = self._buffer(self._outside)
        self._root += self._weights(self._outside)
        self.tape.release(output)

    def run(self, block: Callable[[Value], Value], x: Value, *, elements: int, trained: int) -> Value:
        """Run a block with its weights gathered, and arrange for its backward."""
        tape = self.tape
        if self._head and self.how.reshard:
            self._release(self._root)
        weights: list[Storage] = []
        following, self._before = self._before, elements
        tape.hook(lambda: self._after_backward(weights, elements, trained))
        output = self._buffer(elements)
        weights += self._weights(elements)
        self._release(self._outputs)
        self._outputs.append(output)
        y = block(x)
        if self.how.reshard:
            self._release(weights)
        tape.hook(lambda: self._before_backward(weights, elements, following))
        return y

    def _before_backward(self, weights: list[Storage], elements: int, following: int) -> None:
        """Gather a block, and ahead of it the ``following`` elements of the next unit: none where a joint root comes next."""
        self._root_gradients += self.tape.collected or []
        self.tape.collected = []
        if self.how.reshard:
            weights += self._weights(elements)
            self._release(self._outputs)
            self._outputs.append(self._buffer(following))

    def _after_backward(self, weights: list[Storage], elements: int, trained: int, *, named: int = 0) -> None:
        self._release(weights)
        self._reduce(elements, trained, named=named)

    def _reduce(self, elements: int, trained: int, *, named: int = 0) -> None:
        """Copy the unit's gradients into one reduce-scatter input, and keep the shard.

        The first ``named`` of them are there until then: a loop over the parameters has a name for the last one's gradient
        (torch 2.13 ``_fsdp_collectives.py``, ``foreach_reduce``); in blocks that is a norm's or a bias's.
        """
        self._release(self._reducing)
        size = sizes.constant(min(elements, trained) * self.how.reduce_bytes)
        self._reducing.append(self.tape.allocate(Category.COMMUNICATION, size))
        collected, self.tape.collected = self.tape.collected or [], []
        self.tape.release(*collected[named:])
        if not self.tape.accumulating:
            self.tape.keep_gradient_shard(trained)
        self.tape.release(*collected[:named])

    def _buffer(self, elements: int) -> Storage:
        """Return the output of an all-gather, whose input is a buffer of its own where it is cast.

        (torch 2.13 ``_fsdp_collectives.py``, ``_get_param_all_gather_inputs``: ``flat_foreach_copy_input``.)
        """
        if self.how.alone or self.how.cast_over is None:
            return self._gathered(0 if self.how.alone else elements)
        cast = self._gathered(ceil_div(elements, self.how.cast_over))
        output = self._gathered(elements)
        self.tape.release(cast)
        return output

    def _weights(self, elements: int) -> list[Storage]:
        return self.tape.gather(elements, self.how.gather_bytes)

    def _gathered(self, elements: int) -> Storage:
        return self.tape.allocate(Category.GATHERED_WEIGHTS, sizes.constant(elements * self.how.gather_bytes))

    def _release(self, storages: list[Storage]) -> None:
        self.tape.release(*storages)
        storages.clear()
