"""Replay of a serving replica's history of allocations.

It is load, prefill, and decode steps that replace the tensors of a cache one by one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from service.estimator.memory.allocator.caching_allocator import BLOCK_BYTES, CancelCheck
from service.estimator.memory.allocator.kernel_buffers import KernelBuffers
from service.estimator.memory.allocator.replay_allocators import BlockT, ReplayAllocator
from service.estimator.tape import sizes
from service.estimator.tape.cache_log import CachePass

REQUESTS = 2
"""The steady state: later prompts find what the first ones left to be used again."""
_SMALL_BLOCKS = 2048
"""1 MiB: smaller blocks have a pool of their own (``kSmallSize``)."""
_NUM_WHOLE_STEPS = 2
MAX_CONSECUTIVE_STEPS, MAX_SPREAD_STEPS = 8, 16
"""Decode steps that are replayed: the first ones, which find their places in what prefill left, and
some up to the last, between which each cache grows at once by what it grows in several.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaHistory:
    """Tensors of a replica in bytes, its passes, and their tokens.

    ``loaded`` are made in order and stay, ``dropped`` are made after them and dropped, ``inputs``
    are kept by a caller. ``prompt_tokens`` and ``cached_tokens`` are of each sequence, before
    and after the ``decode`` steps.
    """

    loaded: tuple[int, ...]
    dropped: tuple[int, ...]
    inputs: tuple[int, ...]
    prefill: CachePass
    decode: CachePass | None
    num_sequences: int
    prompt_tokens: int
    cached_tokens: int


def replay_replica(
    allocator: ReplayAllocator[BlockT],
    history: ReplicaHistory,
    kernels: KernelBuffers,
    check: CancelCheck = lambda: None,
) -> int:
    """Make the requests of a replica; return the bytes of its workspaces.

    ``check`` is called before each pass, and may raise.
    """
    allocator.allocate_all(history.loaded)
    allocator.free_all(allocator.allocate_all(history.dropped))
    allocator.reset_peak()  # the peak of load is none of serving
    allocator.allocate_all(history.inputs)
    workspace_bytes = _serve(allocator, history, kernels, check)
    for _ in range(REQUESTS - 1):
        _serve(allocator, history, None, check)
    return workspace_bytes


def _serve(
    allocator: ReplayAllocator[BlockT],
    history: ReplicaHistory,
    kernels: KernelBuffers | None,
    check: CancelCheck,
) -> int:
    """Answer prompts and drop their cache.

    Returns the bytes of the workspaces that are made.
    """
    check()
    blocks, workspace_bytes = _count_blocks(
        history.prefill, history.num_sequences, history.prompt_tokens, kernels
    )
    cached = _run_pass(allocator, history.prefill, blocks, ())
    for logged, tokens in _iter_steps(history):
        check()
        blocks, _ = _count_blocks(logged, history.num_sequences, tokens, None)
        cached = _run_pass(allocator, logged, blocks, cached)
    allocator.free_all(cached)
    return workspace_bytes


def _iter_steps(history: ReplicaHistory) -> Iterator[tuple[CachePass, int]]:
    """Yield decode steps with the tokens that are cached after each.

    Between the first and the last, what is small all along needs no place that was not there.
    """
    if history.decode is None:
        return
    steps = list_replayed_steps(history.prompt_tokens, history.cached_tokens)
    large = _drop_small(history.decode, history.num_sequences, steps[-1])
    for index, tokens in enumerate(steps):
        is_between = _NUM_WHOLE_STEPS <= index < len(steps) - 1
        yield large if is_between else history.decode, tokens


def _drop_small(logged: CachePass, num_sequences: int, tokens: int) -> CachePass:
    """Return a pass without the requests of small blocks.

    Those of the cache stay.
    """
    blocks, _ = _count_blocks(logged, num_sequences, tokens, None)
    kept = {*logged.before, *logged.after}
    kept |= {index for index, size in enumerate(blocks) if size > _SMALL_BLOCKS}
    order = tuple(event for event in logged.events.order if max(event, ~event) in kept)
    return replace(logged, events=replace(logged.events, order=order))


def list_replayed_steps(prompt_tokens: int, cached_tokens: int) -> list[int]:
    """Return the tokens that are cached after each replayed decode step."""
    first = min(prompt_tokens + MAX_CONSECUTIVE_STEPS, cached_tokens)
    spread = min(MAX_SPREAD_STEPS, cached_tokens - first)
    return [
        *range(prompt_tokens + 1, first + 1),
        *(first + (cached_tokens - first) * (step + 1) // spread for step in range(spread)),
    ]


def _count_blocks(
    logged: CachePass, num_sequences: int, tokens: int, kernels: KernelBuffers | None
) -> tuple[list[int], int]:
    """Return the size of every storage, and the bytes of the workspaces.

    Sizes are in blocks. Without ``kernels`` there are no buffers, since an earlier pass has made
    the workspaces.
    """
    events, values = logged.events, sizes.evaluate_monomials(num_sequences, tokens)
    priced = [-(-sizes.evaluate(size, values) // BLOCK_BYTES) for size in events.sizes]
    blocks, workspace_bytes = [priced[kind] for kind in events.kinds], 0
    if kernels is None:
        return blocks, 0
    for buffer, indices in events.buffers:
        num_bytes = kernels.count_bytes(buffer, values)
        workspace_bytes += num_bytes * len(indices) if buffer.stays else 0
        for index in indices:
            blocks[index] = -(-num_bytes // BLOCK_BYTES)
    return blocks, workspace_bytes


def _run_pass(
    allocator: ReplayAllocator[BlockT],
    logged: CachePass,
    blocks: list[int],
    cached: Iterable[BlockT],
) -> list[BlockT]:
    """Replay a pass over a cache; return the blocks of its successor."""
    live: list[BlockT | None] = [None] * len(blocks)
    for index, old in zip(logged.before, cached, strict=True):
        live[index] = old
    for event in logged.events.order:
        if event < 0:
            block = live[~event]
            if block is not None:
                live[~event] = None
                allocator.free(block)
        elif blocks[event]:
            live[event] = allocator.allocate(blocks[event])
    left = [_take(live, index) for index in logged.after]
    for buffer, indices in logged.events.buffers:
        for index in indices if buffer.stays else ():
            live[index] = None
    allocator.free_all(block for block in live if block is not None)
    return left


def _take(live: list[BlockT | None], index: int) -> BlockT:
    block, live[index] = live[index], None
    assert block is not None  # noqa: S101 - what a cache keeps is not empty and not released
    return block
