"""Recordings of the estimator in files.

A new process does not have to make them again.

A file belongs to one state of the estimator's own source: another has a folder of its own, so that
no recording outlives the code that made it. What is not as it was written is dropped and logged.
"""

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

import service.estimator

MAX_BYTES = 256 * 2**20
"""Of all files of one state of the source: some ten thousand recordings."""
_DIGEST_BYTES = sha256().digest_size
_KEPT_SHARE = 0.9
"""Of the bytes, once there are too many: the oldest files go."""

log = logging.getLogger(__name__)


@cache
def compute_source_digest() -> str:
    """Return the digest of the estimator's source and the platform."""
    digest = sha256(f"{sys.version_info[:2]} {sys.byteorder} {sys.maxsize}".encode())
    root = Path(service.estimator.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


class RecordingFiles:
    """Recordings by key in the files of a folder.

    Their bytes are limited, and nothing here ever fails a question. A folder that cannot be written
    is read, or does nothing.
    """

    def __init__(self, cache_dir: Path, *, max_bytes: int = MAX_BYTES) -> None:
        """Look at nothing before the first question."""
        self._root, self._max_bytes = cache_dir / "recordings", max_bytes
        self._num_bytes: int | None = None

    def read(self, key: str) -> bytes | None:
        """Return the bytes of a key, or None.

        There are none where none were written, or where they are no longer as written.
        """
        path = self._find_path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if sha256(data).digest() == digest:
            return data
        log.warning("recording dropped, it is not as it was written: %s", path)
        with suppress(OSError):
            path.unlink()
        return None

    def write(self, key: str, data: bytes) -> None:
        """Write the bytes of a key at once.

        Readers see all of them or none.
        """
        path = self._find_path(key)
        try:
            if self._num_bytes is None:
                self._num_bytes = self._open()
            unfinished = path.with_name(f".{os.getpid()}-{threading.get_ident()}")
            unfinished.write_bytes(sha256(data).digest() + data)
            unfinished.replace(path)
            self._num_bytes += _DIGEST_BYTES + len(data)
            if self._num_bytes > self._max_bytes:
                self._num_bytes = self._prune()
        except OSError as error:
            log.warning("recording not kept: %s", error)
            self._num_bytes = None

    def _find_path(self, key: str) -> Path:
        return self._root / compute_source_digest() / sha256(key.encode()).hexdigest()

    def _open(self) -> int:
        """Make the folder and return its bytes.

        Folders of other states of the source are dropped.
        """
        own = self._root / compute_source_digest()
        own.mkdir(parents=True, exist_ok=True)
        for other in self._root.iterdir():
            if other != own:
                _drop_folder(other)
        return sum(size for _, size, _ in self._iter_files())

    def _prune(self) -> int:
        """Drop the oldest files, and return the bytes of the others."""
        files = sorted(self._iter_files(), reverse=True)
        num_bytes = 0
        for _, size, path in files:
            if num_bytes + size > self._max_bytes * _KEPT_SHARE:
                path.unlink(missing_ok=True)
            else:
                num_bytes += size
        return num_bytes

    def _iter_files(self) -> Iterator[tuple[float, int, Path]]:
        for path in (self._root / compute_source_digest()).iterdir():
            status = path.stat()
            yield status.st_mtime, status.st_size, path


def _drop_folder(folder: Path) -> None:
    """Drop a folder, unless somebody else is doing so."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
        folder.rmdir()


def make_recording_store(cache_dir: Path | None) -> RecordingFiles | None:
    """Return the files of a folder; None where there is none."""
    return None if cache_dir is None else RecordingFiles(cache_dir)
