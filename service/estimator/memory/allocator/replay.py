"""A job's whole history of allocations, replayed: load, a first step that makes the optimizer's states, and a steady one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from service.estimator.memory.allocator.caching_allocator import BLOCK_BYTES, Block, CachingAllocator, Check, allocator_of
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events
from service.estimator.tape.sizes import Size
from service.estimator.values.workload import Allocator

STEPS = 2
"""The steady state: a second step finds the optimizer's states in place, and a third one repeats it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    """Bytes of every tensor that lives outside of the passes, in the order in which they are made.

    ``temporaries`` are made and dropped list by list at the step; ``gradient_bytes`` prices an element of a gradient shard.
    """

    loaded: tuple[int, ...]
    states: tuple[int, ...]
    main_gradients: tuple[int, ...]
    temporaries: tuple[tuple[int, ...], ...]
    gradient_bytes: int
    gradient_shards: int
    backward: tuple[int, ...] = ()
    """Buffers of communication that live through backward, held here from the start of their micro batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What the allocator took from the GPU, the highest sum of blocks in use, and the same peak as sums of tensors."""

    kind: Allocator
    reserved_bytes: int
    allocated_bytes: int
    peak_bytes: int


def replay(
    kind: Allocator, tensors: Tensors, passes: Sequence[Events], values: Size, check: Check = lambda: None
) -> tuple[int, int]:
    """Return what an allocator reserves for a job whose step is ``passes``, and the highest sum of its blocks, in bytes.

    ``values`` are those of the monomials; ``check`` is called now and then, and may raise.
    """
    allocator = allocator_of(kind)
    _all(allocator, tensors.loaded)
    priced = [_blocks(events, tensors, values) for events in passes]
    for step in range(STEPS):
        gradients: list[Block] = []
        for events, blocks in zip(passes, priced, strict=True):
            buffers = _all(allocator, tensors.backward)
            gradients += _run(allocator, events, blocks, check)
            _drop(allocator, buffers)
        main = _all(allocator, tensors.main_gradients)
        if step == 0:
            _all(allocator, tensors.states)
        for group in tensors.temporaries:
            _drop(allocator, _all(allocator, group))
        _drop(allocator, main)
        _drop(allocator, gradients)
    return allocator.reserved * BLOCK_BYTES, allocator.highest * BLOCK_BYTES


def _blocks(events: Events, tensors: Tensors, values: Size) -> list[int]:
    """Return the size of every storage in blocks."""
    priced = [-(-sizes.evaluate(size, values) // BLOCK_BYTES) for size in events.sizes]
    blocks = [priced[kind] for kind in events.kinds]
    for index, elements in events.shards:
        blocks[index] = -(-elements * tensors.gradient_bytes // (tensors.gradient_shards * BLOCK_BYTES))
    return blocks


def _run(allocator: CachingAllocator, events: Events, blocks: list[int], check: Check) -> list[Block]:
    """Replay one pass; return its gradients, and drop everything else that it leaves behind."""
    live = allocator.run(events.order, blocks, check)
    gradients = [live.pop(index) for index in tuple(live) if index in events.gradients]
    _drop(allocator, live.values())
    return gradients


def _all(allocator: CachingAllocator, tensors: Iterable[int]) -> list[Block]:
    return [allocator.allocate(-(-size // BLOCK_BYTES)) for size in tensors if size]


def _drop(allocator: CachingAllocator, blocks: Iterable[Block]) -> None:
    for block in blocks:
        allocator.free(block)
