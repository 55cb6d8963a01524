"""A key/value pool in blocks: how many there are, what a sequence takes of them, and how many tokens and sequences they hold.

Layers that cache alike form groups of equal size which share the pool's memory, each with its own block table
(vLLM 0.19.0, ``v1/core/kv_cache_utils.py``, ``v1/kv_cache_interface.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.estimator.backends.paged_pool.rank_memory import LayerCache
from service.estimator.values.units import ceil_div

_PADDING_LIMIT = 1.5
"""Groups take the size of the most frequent kind while that is less than so many times the least frequent one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """Tokens of one block, of one engine step, and whether windows free their blocks."""

    block_tokens: int
    batched_tokens: int
    hybrid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Blocks of a rank: ``groups`` holds the window of each group of layers, ``block_bytes`` spans the layers of one group."""

    num_blocks: int
    block_bytes: int
    groups: tuple[int | None, ...]
    paging: Paging

    @property
    def bytes(self) -> int:
        """Bytes of all blocks."""
        return self.num_blocks * self.block_bytes

    @property
    def tokens(self) -> int:
        """Tokens as vLLM prints them: blocks of one group times the tokens of a block."""
        return self.num_blocks // len(self.groups) * self.paging.block_tokens

    def blocks_of(self, tokens: int) -> int:
        """Return the blocks that one sequence of so many tokens takes at most."""
        return sum(_blocks(window, tokens, self.paging) for window in self.groups)

    def sequences_of(self, tokens: int) -> float:
        """Return how many sequences of so many tokens the pool holds at once."""
        return self.num_blocks / self.blocks_of(tokens)


def pool_of(caches: Sequence[LayerCache], element_bytes: int, available_bytes: int, paging: Paging) -> Pool:
    """Return the pool that the layers of one rank make of the bytes that are left."""
    windows = {cache.window for cache in caches}
    if len(windows) == 1 or not paging.hybrid:
        page = sum(cache.elements_per_token * cache.count for cache in caches) * element_bytes * paging.block_tokens
        window = next(iter(windows)) if len(windows) == 1 and paging.hybrid else None
        return Pool(num_blocks=max(0, available_bytes) // page, block_bytes=page, groups=(window,), paging=paging)
    size = _group_size([cache.count for cache in caches])
    page = max(cache.elements_per_token for cache in caches) * element_bytes * paging.block_tokens
    groups = tuple(cache.window for cache in caches for _ in range(ceil_div(cache.count, size)))
    return Pool(num_blocks=max(0, available_bytes) // page // size, block_bytes=page * size, groups=groups, paging=paging)


def _group_size(counts: Sequence[int]) -> int:
    """Return the layers of one group (``_get_kv_cache_groups_uniform_page_size``)."""
    fewest, most = min(counts), max(counts)
    return most if most < _PADDING_LIMIT * fewest else fewest


def _blocks(window: int | None, tokens: int, paging: Paging) -> int:
    """Return a group's blocks: a window keeps what it reads and what a step adds, and may begin inside of a block."""
    if window is None:
        return ceil_div(tokens, paging.block_tokens)
    return ceil_div(min(window - 1 + paging.batched_tokens, tokens), paging.block_tokens) + 1
