"""Artifacts that a probe writes into files of its parent.

The files have no name on disk, and nobody has to remove them.
"""

import gzip
import hashlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import IO

from service.estimator.values.units import format_bytes
from service.jobs.artifacts import MAX_PACKED_BYTES, ArtifactName, KeptFile

PICKLE_PROTOCOL = 4
"""The newest that PyTorch's viewer reads (torch/utils/viz/MemoryViz.js)."""


class TooLargeError(Exception):
    """The artifact is larger than allowed, even packed."""


@dataclass(slots=True, kw_only=True)
class ArtifactWriter:
    """Writer of artifacts into open files, by name.

    It keeps the last artifact of each name, or why it could not be written: a measurement is
    complete without it.
    """

    files: Mapping[ArtifactName, int]
    max_bytes: int = MAX_PACKED_BYTES
    _saved: dict[ArtifactName, KeptFile] = field(default_factory=dict)
    _failures: dict[ArtifactName, str] = field(default_factory=dict)

    def make_saver(self, name: ArtifactName) -> Callable[[object], None] | None:
        """Return the function that saves an artifact.

        None where the artifact was not requested. A later artifact replaces the one before.
        """
        return partial(self._save, name) if name in self.files else None

    @property
    def saved(self) -> tuple[KeptFile, ...]:
        """The artifacts that were saved."""
        return tuple(self._saved.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """The requested artifacts that are missing, and why."""
        missing = [name for name in self.files if name not in self._saved]
        return tuple(
            f"{name} was not kept: {self._failures.get(name, 'no run left one')}"
            for name in missing
        )

    def _save(self, name: ArtifactName, document: object) -> None:
        self._saved.pop(name, None)
        try:
            self._saved[name] = self._write(name, document)
        except (OSError, TooLargeError) as error:
            self._failures[name] = str(error)

    def _write(self, name: ArtifactName, document: object) -> KeptFile:
        with open(self.files[name], "wb", closefd=False) as file:
            file.seek(0)
            file.truncate()
            limiter = _LimitedWriter(file=file, max_bytes=self.max_bytes)
            # Without a name and a time the same snapshot is the same bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=limiter, mtime=0) as packed:
                counter = _CountingWriter(file=packed)
                pickle.dump(document, counter, protocol=PICKLE_PROTOCOL)
            return KeptFile(
                name=name,
                bytes=counter.num_bytes,
                sha256=counter.digest.hexdigest(),
                packed_bytes=limiter.num_bytes,
            )


@dataclass(slots=True, kw_only=True)
class _LimitedWriter:
    """Writer that passes bytes on up to a limit."""

    file: IO[bytes]
    max_bytes: int
    num_bytes: int = 0

    def write(self, data: bytes) -> int:
        """Write, or raise TooLargeError and write nothing more."""
        if self.num_bytes + len(data) > self.max_bytes:
            message = (
                f"packed it is larger than {format_bytes(self.max_bytes)}, the most that is "
                "stored; ask for fewer layers"
            )
            raise TooLargeError(message)
        self.num_bytes += len(data)
        return self.file.write(data)

    def flush(self) -> None:
        """Flush the file."""
        self.file.flush()


@dataclass(slots=True, kw_only=True)
class _CountingWriter:
    """Writer that counts the bytes it passes on and their digest."""

    file: gzip.GzipFile
    num_bytes: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def write(self, data: bytes) -> int:
        """Write."""
        self.num_bytes += len(data)
        self.digest.update(data)
        return self.file.write(data)
