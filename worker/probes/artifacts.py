"""What a probe keeps beside its numbers: files that its parent opened, which nobody finds and nobody has to clear away."""

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
    """More than one artifact may have, even packed."""


@dataclass(slots=True, kw_only=True)
class Shelf:
    """Open files by name; what was kept last in each, or why it could not be: a measurement is whole without it."""

    files: Mapping[ArtifactName, int]
    most_bytes: int = MAX_PACKED_BYTES
    _kept: dict[ArtifactName, KeptFile] = field(default_factory=dict)
    _failures: dict[ArtifactName, str] = field(default_factory=dict)

    def keeper(self, name: ArtifactName) -> Callable[[object], None] | None:
        """Return what takes an artifact, ``None`` where it was not asked for; what it gets later replaces what it had."""
        return partial(self._keep, name) if name in self.files else None

    @property
    def kept(self) -> tuple[KeptFile, ...]:
        """What is there in the end."""
        return tuple(self._kept.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """What was asked for and is not there, and why."""
        missing = [name for name in self.files if name not in self._kept]
        return tuple(f"{name} was not kept: {self._failures.get(name, 'no run left one')}" for name in missing)

    def _keep(self, name: ArtifactName, document: object) -> None:
        self._kept.pop(name, None)
        try:
            self._kept[name] = self._written(name, document)
        except (OSError, TooLargeError) as error:
            self._failures[name] = str(error)

    def _written(self, name: ArtifactName, document: object) -> KeptFile:
        with open(self.files[name], "wb", closefd=False) as file:
            file.seek(0)
            file.truncate()
            limited = _Limited(file=file, most_bytes=self.most_bytes)
            # Without a name and a time the same snapshot is the same bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=limited, mtime=0) as packed:
                counted = _Counted(file=packed)
                pickle.dump(document, counted, protocol=PICKLE_PROTOCOL)
            return KeptFile(
                name=name, bytes=counted.num_bytes, sha256=counted.digest.hexdigest(), packed_bytes=limited.num_bytes
            )


@dataclass(slots=True, kw_only=True)
class _Limited:
    """Passes bytes on up to a limit."""

    file: IO[bytes]
    most_bytes: int
    num_bytes: int = 0

    def write(self, data: bytes) -> int:
        """Write, or raise TooLargeError and write nothing more."""
        if self.num_bytes + len(data) > self.most_bytes:
            message = f"packed it is larger than {format_bytes(self.most_bytes)}, the most that is stored; ask for fewer layers"
            raise TooLargeError(message)
        self.num_bytes += len(data)
        return self.file.write(data)

    def flush(self) -> None:
        """Pass it on."""
        self.file.flush()


@dataclass(slots=True, kw_only=True)
class _Counted:
    """Passes bytes on, and knows how many they were and what they add up to."""

    file: gzip.GzipFile
    num_bytes: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def write(self, data: bytes) -> int:
        """Write."""
        self.num_bytes += len(data)
        self.digest.update(data)
        return self.file.write(data)
