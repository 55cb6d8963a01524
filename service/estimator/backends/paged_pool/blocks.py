"""A key/value pool in blocks: their number and what they hold.

A sequence takes blocks of it, which bounds the tokens and sequences that it holds. Layers that
cache alike form groups of equal size which share the pool's memory, each with its own block table
(vLLM 0.19.0, ``v1/core/kv_cache_utils.py``, ``v1/kv_cache_interface.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.estimator.backends.paged_pool.layer_caches import LayerCache, LayerState
from service.estimator.backends.paged_pool.memory_parts import (
    MemoryPart,
    make_exact_part,
)
from service.estimator.values.units import ceil_div

_PADDING_LIMIT = 1.5
"""Groups take the size of the most frequent kind while that is less than so many times the least
frequent one.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """Paging of a pool.

    It has the tokens of one block and of one engine step, and whether windows free their blocks.
    """

    block_tokens: int
    batched_tokens: int
    hybrid: bool
    state_blocks: tuple[int, int] = (1, 1)
    """Blocks of a sequence for each state, and for those that a prefill exports."""
    guessed_blocks: int = 0
    """Blocks more of each state, for tokens that are guessed ahead and may be taken back."""
    counts_requests: bool = False
    """Whether the engine prints tokens of requests of the longest length, not of one group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvBlockPool:
    """Blocks of a rank.

    ``groups`` holds the window of each group of layers, ``block_bytes`` spans the layers of one
    group.
    """

    num_blocks: int
    block_bytes: int
    groups: tuple[int | None, ...]
    paging: Paging
    blocks_of_states: int = 0
    """Blocks that the states of one sequence take, however long it is."""
    state_groups: int = 0
    start_blocks: int | None = None
    """What is asked in place of those blocks when the engine starts, where it is another number."""

    @property
    def bytes(self) -> int:
        """Bytes of all blocks."""
        return self.num_blocks * self.block_bytes

    @property
    def state_bytes(self) -> int:
        """Bytes of states beside the blocks: none, as they are blocks."""
        return 0

    @property
    def batched_tokens(self) -> int:
        """Tokens of one step of the engine."""
        return self.paging.batched_tokens

    def limit_blocks(self, num_blocks: int) -> "KvBlockPool":
        """Return the pool with as few blocks as that of another stage."""
        return replace(self, num_blocks=num_blocks)

    def count_tokens(self, longest: int) -> int:
        """Return the tokens as the engine prints them.

        They are the blocks of one group times the tokens of a block, or those of requests of the
        longest length (vLLM 0.21.0, ``get_kv_cache_capacity``).
        """
        if self.paging.counts_requests:
            return int(self.count_concurrency(longest) * longest)
        if not self.groups:
            return self.num_blocks * longest
        groups = len(self.groups) + self.state_groups
        return self.num_blocks // groups * self.paging.block_tokens

    def count_blocks(self, tokens: int) -> int:
        """Return the most blocks that one sequence of so many tokens takes."""
        blocks = sum(_count_group_blocks(window, tokens, self.paging) for window in self.groups)
        return blocks + self.blocks_of_states

    def count_sequences(self, tokens: int) -> float:
        """Return the sequences of so many tokens that fit at once."""
        return self.num_blocks / self.count_blocks(tokens)

    def count_bytes(self, num_sequences: int, tokens: int) -> int:
        """Return the bytes that sequences take."""
        return num_sequences * self.count_blocks(tokens) * self.block_bytes

    def count_start_bytes(self, longest: int) -> int:
        """Return the bytes that one sequence needs when the engine starts."""
        return self._count_start_blocks(longest) * self.block_bytes

    def count_concurrency(self, longest: int) -> float:
        """Return the sequences of the longest length, as the engine prints them."""
        return self.num_blocks / self._count_start_blocks(longest)

    def _count_start_blocks(self, longest: int) -> int:
        more = 0 if self.start_blocks is None else self.start_blocks - self.blocks_of_states
        return self.count_blocks(longest) + more

    def count_required_bytes(self, num_sequences: int, tokens: int) -> int:
        """Return the bytes that sequences need of the pool."""
        return self.count_bytes(num_sequences, tokens)

    def list_limits(self, num_sequences: int, tokens: int) -> tuple[str, ...]:
        """Return what keeps sequences waiting beside memory: nothing."""
        del num_sequences, tokens
        return ()

    def list_parts(self, source: str) -> tuple[MemoryPart, ...]:
        """Return the pool as a part of a rank's memory."""
        if not self.groups:
            formula = f"{self.num_blocks} sequences x {self.block_bytes} B of states"
        else:
            tokens = self.paging.block_tokens
            formula = f"{self.num_blocks} blocks x {tokens} tokens x {self.block_bytes // tokens} B"
        return (make_exact_part("kv_cache", self.bytes, formula, source),)


def build_pool(
    caches: Sequence[LayerCache],
    element_bytes: int,
    available_bytes: int,
    paging: Paging,
    states: Sequence[LayerState] = (),
) -> KvBlockPool:
    """Return the pool that one rank's layers make of the bytes left."""
    if states:
        return _build_state_pool(caches, states, element_bytes, max(0, available_bytes), paging)
    windows = {cache.window for cache in caches}
    if len(windows) == 1 or not paging.hybrid:
        page = sum(cache.count_token_bytes(element_bytes) for cache in caches) * paging.block_tokens
        window = next(iter(windows)) if len(windows) == 1 and paging.hybrid else None
        return KvBlockPool(
            num_blocks=max(0, available_bytes) // page,
            block_bytes=page,
            groups=(window,),
            paging=paging,
        )
    size = _get_group_size([cache.count for cache in caches])
    page = max(cache.elements_per_token for cache in caches) * element_bytes * paging.block_tokens
    groups = tuple(cache.window for cache in caches for _ in range(ceil_div(cache.count, size)))
    return KvBlockPool(
        num_blocks=max(0, available_bytes) // page // size,
        block_bytes=page * size,
        groups=groups,
        paging=paging,
    )


def _build_state_pool(
    caches: Sequence[LayerCache],
    states: Sequence[LayerState],
    element_bytes: int,
    available_bytes: int,
    paging: Paging,
) -> KvBlockPool:
    """Return the pool of layers that keep states.

    A block of attention has as many tokens as fill a state, which is padded to it
    (``platforms/interface.py``, ``_align_hybrid_block_size``).
    """
    if not caches:
        page = sum(state.bytes * state.count for state in states)
        return KvBlockPool(
            num_blocks=available_bytes // page,
            block_bytes=page,
            groups=(),
            paging=paging,
            blocks_of_states=1 + paging.guessed_blocks,
            state_groups=1,
        )
    token = max(cache.elements_per_token for cache in caches) * element_bytes
    step = paging.block_tokens
    block_tokens = step * ceil_div(max(state.bytes for state in states), step * token)
    size = _get_group_size([*(cache.count for cache in caches), *(state.count for state in states)])
    groups = tuple(cache.window for cache in caches for _ in range(ceil_div(cache.count, size)))
    numbers = [(ceil_div(state.count, size), state.exports) for state in states]
    page = token * block_tokens * size
    return KvBlockPool(
        num_blocks=available_bytes // page,
        block_bytes=page,
        groups=groups,
        paging=replace(paging, block_tokens=block_tokens),
        blocks_of_states=sum(
            number * (paging.state_blocks[exports] + paging.guessed_blocks)
            for number, exports in numbers
        ),
        state_groups=sum(number for number, _ in numbers),
    )


def _get_group_size(counts: Sequence[int]) -> int:
    """Return the layers of one group (``_get_kv_cache_groups_uniform_page_size``)."""
    smallest, largest = min(counts), max(counts)
    return largest if largest < _PADDING_LIMIT * smallest else smallest


def _count_group_blocks(window: int | None, tokens: int, paging: Paging) -> int:
    """Return the blocks of a group of layers.

    A window keeps what it reads and what a step adds, and may begin inside of a block.
    """
    if window is None:
        return ceil_div(tokens, paging.block_tokens)
    return ceil_div(min(window - 1 + paging.batched_tokens, tokens), paging.block_tokens) + 1
