"""Recordings of the estimator in files.

A new process does not have to make them again.

A file belongs to one state of the estimator's own source: another has a folder of its own, so that
no recording outlives the code that made it, and two releases beside each other keep theirs. What is
not as it was written is dropped and logged.
"""

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

from service import estimator

MAX_BYTES = 256 * 2**20
"""Of all files of one state of the source: some ten thousand recordings."""
_DIGEST_BYTES = sha256().digest_size
_KEPT_SHARE = 0.9
"""Of the bytes, once there are too many: the oldest files go."""
_ABANDONED_AFTER_S = 7 * 24 * 3600.0
"""From then on what another state of the source wrote, or a writer left unfinished, goes."""
_COMPLETE = ".complete"
"""In the folder of a state whose common questions are all recorded; it goes with them."""

log = logging.getLogger(__name__)


@cache
def compute_source_digest() -> str:
    """Return the digest of the estimator's source and the platform."""
    digest = sha256(f"{sys.version_info[:2]} {sys.byteorder} {sys.maxsize}".encode())
    root = Path(estimator.__file__).parent
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
        if _compute_digest(key, data) == digest:
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
            with NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as unfinished:
                unfinished.write(_compute_digest(key, data) + data)
            Path(unfinished.name).replace(path)
            self._num_bytes += _DIGEST_BYTES + len(data)
            if self._num_bytes > self._max_bytes:
                self._num_bytes = self._prune()
        except OSError as error:
            log.warning("recording not kept: %s", error)
            self._num_bytes = None

    def is_complete(self) -> bool:
        """Return whether ``mark_complete`` was called for this state of the source."""
        return (self._folder / _COMPLETE).exists()

    def mark_complete(self) -> None:
        """Note that the common questions are recorded.

        Raises OSError where the folder cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / _COMPLETE).touch()

    @property
    def _folder(self) -> Path:
        return self._root / compute_source_digest()

    def _find_path(self, key: str) -> Path:
        return self._folder / sha256(key.encode()).hexdigest()

    def _open(self) -> int:
        """Make the folder and return its bytes.

        Folders of other states of the source go once nobody has written there for a week.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        oldest = time.time() - _ABANDONED_AFTER_S
        for folder in self._root.iterdir():
            files = list(_iter_files(folder))
            if folder == self._folder:
                _drop(path for modified, _, path in files if _is_unfinished(path, modified, oldest))
            elif max((modified for modified, _, _ in files), default=0) < oldest:
                _drop(path for _, _, path in files)
                with suppress(OSError):
                    folder.rmdir()
        return sum(size for _, size, _ in self._iter_recordings())

    def _prune(self) -> int:
        """Drop the oldest files, and return the bytes of the others."""
        num_bytes = 0
        for _, size, path in sorted(self._iter_recordings(), reverse=True):
            if num_bytes + size > self._max_bytes * _KEPT_SHARE:
                path.unlink(missing_ok=True)
            else:
                num_bytes += size
        return num_bytes

    def _iter_recordings(self) -> Iterator[tuple[float, int, Path]]:
        return (file for file in _iter_files(self._folder) if not file[-1].name.startswith("."))


def _compute_digest(key: str, data: bytes) -> bytes:
    return sha256(key.encode() + b"\0" + data).digest()


def _is_unfinished(path: Path, modified: float, oldest: float) -> bool:
    return path.name.startswith(".") and path.name != _COMPLETE and modified < oldest


def _iter_files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield time of writing, bytes and path of every file left."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            status = path.stat()
            yield status.st_mtime, status.st_size, path


def _drop(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def make_recording_store(cache_dir: Path | None) -> RecordingFiles | None:
    """Return the files of a folder; None where there is none."""
    return None if cache_dir is None else RecordingFiles(cache_dir)
