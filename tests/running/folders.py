"""Folders of servers' data, in memory where there is room.

A new database writes 40 MB and waits until a disk has them. Nothing of a test outlives its run.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of a random name is made in it
_ROOM_BYTES = 4 << 30
"""More than the servers of all processes of a run write; a container's usual one is smaller."""


@contextmanager
def make_folder() -> Iterator[Path]:
    """Yield an empty folder whose path leaves room for a socket, and remove it."""
    path = Path(tempfile.mkdtemp(prefix="headroom-", dir=_choose_parent()))
    try:
        yield path
    finally:
        shutil.rmtree(path)


@cache
def _choose_parent() -> Path | None:
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES:
        return _MEMORY
    return None
