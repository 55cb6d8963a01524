"""Replay of a job's whole history of allocations.

It is load, a first step that makes the optimizer's states, and a steady one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.estimator.memory.allocator.caching_allocator import (
    BLOCK_BYTES,
    Block,
    CachingAllocator,
    CancelCheck,
    make_allocator,
)
from service.estimator.memory.optimizers.events import StepEvents
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events
from service.estimator.tape.sizes import Size
from service.estimator.values.workload import Allocator

STEPS = 2
"""The steady state: a second step finds the optimizer's states in place, and a third one repeats
it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTensors:
    """Bytes of every tensor outside of the passes, in order.

    The order is that in which they are made. ``step`` has what the optimizer makes and drops at its
    step; ``gradient_bytes`` prices an element of a gradient shard.
    """

    loaded: tuple[int, ...]
    states: tuple[int, ...]
    main_gradients: tuple[int, ...]
    step: StepEvents
    gradient_bytes: int
    gradient_shards: int
    dropped: tuple[int, ...] = ()
    """Tensors that loading makes and drops, last of all."""
    backward: tuple[int, ...] = ()
    """Buffers of communication that live through backward, held here from the start of their micro
    batch.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """Reserved and allocated peaks of a replay.

    They are the memory that the allocator took from the GPU, the highest sum of blocks in use, and
    the same peak as a sum of tensors.
    """

    kind: Allocator
    reserved_bytes: int
    allocated_bytes: int
    peak_bytes: int


def replay(
    kind: Allocator,
    tensors: JobTensors,
    passes: Sequence[Events],
    values: Size,
    check: CancelCheck = lambda: None,
) -> tuple[int, int]:
    """Return a job's reserved bytes and its highest sum of blocks.

    The job's step is ``passes``, both are in bytes. ``values`` are those of the monomials;
    ``check`` is called now and then, and may raise.
    """
    allocator = make_allocator(kind)
    allocator.allocate_all(tensors.loaded)
    allocator.free_all(allocator.allocate_all(tensors.dropped))
    temporaries = [-(-size // BLOCK_BYTES) for size in tensors.step.sizes]
    priced = [_count_blocks(events, tensors, values) for events in passes]
    for step in range(STEPS):
        gradients: list[Block] = []
        for events, blocks in zip(passes, priced, strict=True):
            buffers = allocator.allocate_all(tensors.backward)
            gradients += _replay_pass(allocator, events, blocks, check)
            allocator.free_all(buffers)
        main = allocator.allocate_all(tensors.main_gradients)
        if step == 0:
            allocator.allocate_all(tensors.states)
        allocator.run(tensors.step.order, temporaries, check)
        if step + 1 < STEPS:  # what is freed last of all changes no peak
            allocator.free_all(main)
            allocator.free_all(gradients)
    return allocator.reserved * BLOCK_BYTES, allocator.highest * BLOCK_BYTES


def _count_blocks(events: Events, tensors: JobTensors, values: Size) -> list[int]:
    """Return the size of every storage in blocks."""
    priced = [-(-sizes.evaluate(size, values) // BLOCK_BYTES) for size in events.sizes]
    blocks = [priced[kind] for kind in events.kinds]
    for index, elements in events.shards:
        blocks[index] = -(
            -elements * tensors.gradient_bytes // (tensors.gradient_shards * BLOCK_BYTES)
        )
    return blocks


def _replay_pass(
    allocator: CachingAllocator, events: Events, blocks: list[int], check: CancelCheck
) -> list[Block]:
    """Replay one pass; return its gradients and free the rest."""
    live = allocator.run(events.order, blocks, check)
    gradients = [live.pop(index) for index in tuple(live) if index in events.gradients]
    allocator.free_all(live.values())
    return gradients
