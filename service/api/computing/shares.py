"""Shares of a container's memory, with room for all.

A quarter is the server's own (``service/usecases/operations/kept_memory.py``), and five parts of
thirty-two are what children keep between calls (``service/runtime/children/child.py``). Half of it
is for calls of children that run; the rest is left to the processes that start them.
"""

from service.api.computing.reading import FILE_MODULES, MOST_MEMORY_BYTES
from service.api.computing.search_processes import MEMORY_BYTES, SEARCH_MODULES
from service.runtime.children.memory import ChildMemory
from service.runtime.children.pool import ChildPool
from service.runtime.children.starting import ChildStarter
from service.runtime.memory_limit import read_memory_limit, share_memory

_RUNNING = 2
_SEARCH = 5
"""Two searches run at once (``HEADROOM_SEARCH_PROCESSES``), beside what is spared."""
_FILE = 4
_SPARED = 10
"""What searches leave to files: documents of hooks wait behind no search."""


def make_pools() -> tuple[ChildPool, ChildPool]:
    """Make the processes that read files, and those that search.

    What runs in both takes half of a container's memory at most.
    """
    limit = read_memory_limit()
    memory = ChildMemory(None if limit is None else limit // _RUNNING)
    files = ChildPool(ChildStarter(FILE_MODULES), keeps=False, memory=memory)
    searches = ChildPool(
        ChildStarter(SEARCH_MODULES, idle_s=None),
        keeps=True,
        memory=memory,
        spared_bytes=_share_spared_memory(),
    )
    return files, searches


def share_search_memory() -> int:
    """Return the bytes that one search may take."""
    return share_memory(MEMORY_BYTES, _SEARCH)


def share_file_memory() -> int:
    """Return the bytes that reading one file may take."""
    return share_memory(MOST_MEMORY_BYTES, _FILE)


def _share_spared_memory() -> int:
    """Return the bytes that searches leave to files."""
    return share_memory(MOST_MEMORY_BYTES, _SPARED)
