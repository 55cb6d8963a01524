"""Sharded units: gathered weights and full-size gradients of blocks.

A rank gathers weights for a block, and reduces its gradients after it. The order of events is that
of torch/distributed/fsdp/_fully_shard: a block's all-gather output lives until the next one is
there; in backward the next block is gathered while the current one runs, and the input of a
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
class ShardPadding:
    """Elements by which uneven shards are padded.

    ``root`` is all that is outside of the blocks, ``head`` is the head's unit.
    """

    root: int = 0
    head: int = 0


NO_PADDING = ShardPadding()
COPY_IN_STREAM, REDUCE_STREAM = 1, 2
"""Streams of FSDP that allocate, beside the default one (torch 2.13 ``_fsdp_collectives.py``,
``foreach_all_gather``, ``foreach_reduce``): what is gathered, and a shard of the gradients.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FsdpConfig:
    """Sharding of units: bytes per gathered and reduced element.

    ``adapter_bytes`` are those of an adapter's; ``reshard``: blocks are dropped after forward.
    """

    gather_bytes: int
    adapter_bytes: int
    reduce_bytes: int
    reshard: bool
    single_rank: bool = False
    """Whether there is a single rank: parameters are copied one by one, without a buffer that all
    of a unit is gathered in.
    """
    splits_root: bool = False
    """Whether the embedding is a unit, and norm and head another, gathered until its backward."""
    fetches_modules: bool = False
    """Whether modules are fetched as they come, the first block while the table is read
    (DeepSpeed's stage 3).
    """
    flat_parameters: bool = False
    """Whether a unit is one flat parameter, as FSDP1 makes it."""
    adapter_units: bool = False
    """Whether adapters are units of their own, inside of blocks whose units have no trained
    weights.
    """
    cast_ranks: int | None = None
    """Ranks each of which casts its shares of a unit in one buffer before they are gathered; None
    where nothing is cast.
    """
    backward_prefetch: bool = True
    """Whether flat parameters are gathered ahead in backward."""
    uneven_ranks: int = 1
    """Ranks over which rows of tensors are shared out, where some share is filled up to be as large
    as the first; else 1.
    """
    padding: ShardPadding = NO_PADDING

    @property
    def has_streams(self) -> bool:
        """Whether units are FSDP's."""
        return not self.fetches_modules

    def to_gathered_elements(self, adapters: int) -> int:
        """Return elements of adapters, which may be wider, as gathered ones."""
        return ceil_div(adapters * self.adapter_bytes, self.gather_bytes)

    def to_adapter_elements(self, gathered: int) -> int:
        """Return gathered elements as those of adapters, in which gradients are counted."""
        return ceil_div(gathered * self.gather_bytes, self.adapter_bytes)


class ShardedUnits:
    """Buffers of sharded units during one step.

    The root unit holds everything outside of the blocks. Where embedding and head are units of
    their own, the root unit is the embedding's, and gives way to the first block if blocks are
    dropped after forward.
    """

    def __init__(self, tape: Tape, config: FsdpConfig) -> None:
        """Start with nothing gathered."""
        self.tape, self.config = tape, config
        self._outputs: list[Storage] = []
        self._reducing: list[Storage] = []
        self._root: list[Storage] = []
        self._root_gradients: list[Storage] = []
        self._head_elements = self._next_elements = self._root_elements = self._named_gradients = 0
        self._latest_elements = 0
        self._head_gathers_block = self._loops_over_parameters = self._root_follows_block = False

    def open_root(
        self, elements: int, block_elements: int, *, head: int = 0, ends_in_head: bool = False
    ) -> None:
        """Gather the root unit.

        Its all-gather output lives until the first block is copied out of its own. ``head``:
        elements of final norm and head, which may be a unit of their own. ``ends_in_head``: the
        last parameter tensor of either unit is the head's weight, whose gradient is the first one.
        """
        self._loops_over_parameters = not (
            self.config.single_rank or self.config.fetches_modules or self.config.flat_parameters
        )
        self._named_gradients = int(ends_in_head and self._loops_over_parameters)
        padding = self.config.padding
        self._head_elements = head + padding.head if head and self.config.splits_root else 0
        elements += padding.root - self._head_elements
        self._root_elements, self._head_gathers_block = elements, False
        self._next_elements = elements if self._head_elements else 0
        if self._head_elements and self.config.reshard and self.config.fetches_modules:
            self.tape.hook(lambda: self._root.extend(self._gather_weights(elements)))
        output = self._gather_buffer(elements)
        self._root += self._gather_weights(elements)
        if self.config.fetches_modules:
            self.tape.release(output)
            output = self._gather_buffer(block_elements)
        self._outputs.append(output)
        self.tape.collected_gradients = []

    def close_embedding(self) -> None:
        """Gather an embedding that gave way to blocks."""
        if self._head_elements and self.config.reshard and not self.config.fetches_modules:
            self.tape.hook(self._gather_embedding)

    def _gather_embedding(self) -> None:
        self._root.extend(self._gather_weights(self._root_elements))
        self._release(self._outputs)

    def open_head(self) -> None:
        """Gather the unit of norm and head, reduced right after its backward."""
        if not self._head_elements:
            return
        elements, output = self._head_elements, self._gather_buffer(self._head_elements)
        weights, named = self._gather_weights(elements), self._named_gradients
        self.tape.hook(
            lambda: self._after_backward(weights, elements, elements, named_gradients=named)
        )
        self._release(self._outputs)
        self._outputs.append(output)

    def close_head(self) -> None:
        """Gather the last block where the head is a unit."""
        if self._head_elements and self.config.reshard and not self.config.fetches_modules:
            self._head_gathers_block = True
            self.tape.hook(lambda: self._outputs.append(self._gather_buffer(self._next_elements)))

    def close_root(self, elements: int, trained: int) -> None:
        """Reduce the root's gradients, the last of all."""
        padding = self.config.padding.root
        elements, trained = (
            elements + padding - self._head_elements,
            trained + (padding if trained else 0) - self._head_elements,
        )
        self.tape.release(*self._root)
        self.tape.collected_gradients = self._root_gradients + (self.tape.collected_gradients or [])
        self._reduce(
            elements,
            trained,
            named_gradients=int(self._loops_over_parameters)
            if self._head_elements
            else self._named_gradients,
        )
        self.tape.release(*self._reducing)

    def return_block(self) -> None:
        """Drop the root where the model returns the last block's own output.

        Its hooks run in their order: backward gathers the block first, and then the root (torch
        2.13 ``_fsdp_state.py``, ``_register_pre_backward_hook``).
        """
        if self.config.reshard and not (self.config.fetches_modules or self._head_elements):
            self._root_follows_block = True
            self._release(self._outputs)
            self._release(self._root)

    def end_forward(self) -> None:
        """Gather the root again with the block that backward begins with."""
        latest = self._latest_elements if self._outputs else 0
        self._release(self._outputs)
        if not self.config.reshard or self._head_gathers_block or self._root_follows_block:
            return
        if self._head_elements:
            self._outputs.append(self._gather_buffer(self._next_elements))
            return
        if not self.config.fetches_modules:
            self._gather_root_again()
        if latest:
            self._outputs.append(self._gather_buffer(latest))

    def _gather_root_again(self) -> None:
        self._release(self._root)
        output = self._gather_buffer(self._root_elements)
        self._root += self._gather_weights(self._root_elements)
        self.tape.release(output)

    def run_block(
        self, block: Callable[[Value], Value], x: Value, *, elements: int, trained: int
    ) -> Value:
        """Run a block with its weights gathered, and hook its backward."""
        tape = self.tape
        if self._head_elements and self.config.reshard:
            self._release(self._root)
        weights: list[Storage] = []
        following, self._next_elements = self._next_elements, elements
        tape.hook(lambda: self._after_backward(weights, elements, trained))
        output = self._gather_buffer(elements)
        weights += self._gather_weights(elements)
        self._release(self._outputs)
        self._outputs.append(output)
        y = block(x)
        if self.config.reshard:
            self._release(weights)
        tape.hook(lambda: self._before_backward(weights, elements, following))
        return y

    def _before_backward(self, weights: list[Storage], elements: int, following: int) -> None:
        """Gather a block, and ahead of it the next unit.

        ``following``: elements of the next unit, none where a joint root comes next.
        """
        self._root_gradients += self.tape.collected_gradients or []
        self.tape.collected_gradients = []
        if not self.config.reshard:
            return
        if self._root_follows_block:
            self._outputs.append(self._gather_buffer(elements))
        weights += self._gather_weights(elements)
        self._release(self._outputs)
        self._outputs.append(self._gather_buffer(following))
        if self._root_follows_block:
            self._root_follows_block = False
            self._gather_root_again()

    def _after_backward(
        self, weights: list[Storage], elements: int, trained: int, *, named_gradients: int = 0
    ) -> None:
        self._release(weights)
        self._reduce(elements, trained, named_gradients=named_gradients)

    def _reduce(self, elements: int, trained: int, *, named_gradients: int = 0) -> None:
        """Reduce-scatter the unit's gradients, and keep the shard.

        They are copied into one input. The first ``named_gradients`` of them are there until then:
        a loop over the parameters has a name for the last one's gradient (torch 2.13
        ``_fsdp_collectives.py``, ``foreach_reduce``); in blocks that is a norm's or a bias's.
        """
        self._release(self._reducing)
        size = sizes.constant(min(elements, trained) * self.config.reduce_bytes)
        self._reducing.append(self.tape.allocate(Category.COMMUNICATION, size))
        collected, self.tape.collected_gradients = self.tape.collected_gradients or [], []
        self.tape.release(*collected[named_gradients:])
        if not self.tape.accumulating:
            self.tape.stream = REDUCE_STREAM if self.config.has_streams else 0
            self.tape.keep_gradient_shard(trained)
            self.tape.stream = 0
        self.tape.release(*collected[:named_gradients])

    def _gather_buffer(self, elements: int) -> Storage:
        """Return an all-gather's output; casts are its input."""
        self._latest_elements = elements
        ranks = self.config.cast_ranks
        if self.config.single_rank:
            return self._allocate_gathered(0)
        self.tape.stream = COPY_IN_STREAM if self.config.has_streams else 0
        cast = [] if ranks is None else [self._allocate_gathered(ceil_div(elements, ranks))]
        output = self._allocate_gathered(elements)
        self.tape.stream = 0
        self.tape.release(*cast)
        return output

    def _gather_weights(self, elements: int) -> list[Storage]:
        casts = self.config.single_rank and self.config.cast_ranks is not None
        return self.tape.gather(elements, self.config.gather_bytes, casts=casts)

    def _allocate_gathered(self, elements: int) -> Storage:
        return self.tape.allocate(
            Category.GATHERED_WEIGHTS, sizes.constant(elements * self.config.gather_bytes)
        )

    def _release(self, storages: list[Storage]) -> None:
        self.tape.release(*storages)
        storages.clear()
