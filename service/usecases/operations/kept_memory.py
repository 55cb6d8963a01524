"""Bound of the memory that a process keeps for answers to come."""

import gc
from collections.abc import Callable

from service.runtime.children.limits import count_resident_bytes
from service.runtime.logs import get_logger
from service.runtime.memory_limit import share_memory

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
    """

    def __init__(
        self,
        empty: Callable[[], None],
        *,
        on_count: Callable[[int], None] = lambda _num_bytes: None,
        on_empty: Callable[[], None] = lambda: None,
        count: Callable[[], int] = count_resident_bytes,
        max_bytes: int | None = None,
    ) -> None:
        """Bound this process; ``empty`` empties its caches.

        ``on_count`` is told what the process has, which ``count`` returns, and ``on_empty`` that
        it forgets.
        """
        self._empty, self._count = empty, count
        self._on_count, self._on_empty = on_count, on_empty
        self.max_bytes = (
            share_memory(MAX_RESIDENT_BYTES, _SHARE) if max_bytes is None else max_bytes
        )
        self._set_bar(count())

    def check(self) -> None:
        """Empty the caches where this process has too much."""
        before = self._count()
        self._on_count(before)
        if before <= self._bar:
            return
        self._empty()
        gc.collect()
        after = self._count()
        self._set_bar(after)
        self._on_empty()
        _log.info("caches.emptied", before_bytes=before, after_bytes=after)

    def _set_bar(self, fixed_bytes: int) -> None:
        """Set what a process may have that cannot get below ``fixed_bytes``."""
        self._bar = max(self.max_bytes, fixed_bytes + self.max_bytes // 4)
