"""Bound of the memory that a process keeps for answers to come."""

import gc
import sys
from collections.abc import Callable

from service.runtime.children.limits import count_resident_bytes
from service.runtime.logs import get_logger
from service.runtime.memory_limit import return_free_memory, share_memory

MAX_RESIDENT_BYTES = 512 * 2**20
"""A process that has more forgets what it kept. 2,000 first answers about 159 models took 820 MB
beside the 145 MB that a server begins with.
"""
_SHARE = 4
"""A process keeps no more than this part of its container: searches need the rest."""

_log = get_logger(__name__)


class KeptMemory:
    """Guard that empties caches where a process has grown too large.

    What cannot be given back, because it was there before or lies between what is in use, does not
    count: caches are emptied once a quarter of the bound has come to it.

    Python keeps most of what is freed, and uses it again: resident memory hardly falls when caches
    are emptied, and grows no more until as many blocks are in use. So they are emptied again at the
    blocks that were in use the first time, and not only where memory has grown once more, which
    would raise the bar each time.
    """

    def __init__(
        self,
        empty: Callable[[], None],
        *,
        on_count: Callable[[int], None] = lambda _num_bytes: None,
        on_empty: Callable[[], None] = lambda: None,
        count: Callable[[], int] = count_resident_bytes,
        count_blocks: Callable[[], int] = sys.getallocatedblocks,
        max_bytes: int | None = None,
    ) -> None:
        """Bound this process; ``empty`` empties its caches.

        ``on_count`` is told what the process has, which ``count`` returns, and ``on_empty`` that
        it forgets. ``count_blocks`` returns how many blocks of memory are in use.
        """
        self._empty, self._count, self._count_blocks = empty, count, count_blocks
        self._on_count, self._on_empty = on_count, on_empty
        self.max_bytes = (
            share_memory(MAX_RESIDENT_BYTES, _SHARE) if max_bytes is None else max_bytes
        )
        self._most_blocks: int | None = None
        self._set_bar(count())

    def check(self) -> None:
        """Empty the caches where this process has too much."""
        before, blocks = self._count(), self._count_blocks()
        self._on_count(before)
        is_full = self._most_blocks is not None and blocks > self._most_blocks
        if before <= self._bar and not is_full:
            return
        self._empty()
        gc.collect()
        return_free_memory()
        after = self._count()
        self._set_bar(after)
        self._bound_blocks(blocks)
        self._on_empty()
        _log.info("caches.emptied", before_bytes=before, after_bytes=after)

    def _set_bar(self, fixed_bytes: int) -> None:
        """Set what a process may have that cannot get below ``fixed_bytes``."""
        self._bar = max(self.max_bytes, fixed_bytes + self.max_bytes // 4)

    def _bound_blocks(self, blocks: int) -> None:
        """Set the blocks that may be in use.

        They are at most those that were too many once. A quarter more than is left may come, so
        that caches are not emptied for what is in use.
        """
        fewest = blocks if self._most_blocks is None else min(blocks, self._most_blocks)
        left = self._count_blocks()
        self._most_blocks = max(fewest, left + left // 4)
