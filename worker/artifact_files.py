"""Unnamed temporary files for the artifacts of a probe.

They are open and have no name, so nothing is left on disk whichever process is killed.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO

from service.db.records.measurements import PackedArtifact
from service.jobs.artifacts import MAX_PACKED_BYTES, MEDIA_TYPES, ArtifactName, KeptFile
from service.jobs.contract import ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactFiles:
    """Open files by the name of the requested artifact."""

    by_name: dict[ArtifactName, IO[bytes]]

    @property
    def descriptors(self) -> dict[ArtifactName, int]:
        """The file descriptors that a probe inherits."""
        return {name: file.fileno() for name, file in self.by_name.items()}

    def read(self, entries: Sequence[KeptFile]) -> tuple[PackedArtifact, ...]:
        """Read the artifacts that a probe reports.

        Raises ProtocolError where a file differs from the report.
        """
        return tuple(self._read(entry) for entry in entries)

    def _read(self, entry: KeptFile) -> PackedArtifact:
        file = self.by_name.get(entry.name)
        size = 0 if file is None else os.fstat(file.fileno()).st_size
        if file is None or size != entry.packed_bytes or not 0 < size <= MAX_PACKED_BYTES:
            message = (
                f"the probe says that it kept {entry.packed_bytes} bytes of {entry.name}, and "
                f"there are {size}"
            )
            raise ProtocolError(message)
        # The probe shares the file's position, so it may be anywhere.
        file.seek(0)
        return PackedArtifact(
            name=entry.name.value,
            media_type=MEDIA_TYPES[entry.name],
            bytes=entry.bytes,
            sha256=entry.sha256,
            packed=file.read(),
        )


@contextmanager
def open_files(names: Sequence[ArtifactName]) -> Iterator[ArtifactFiles]:
    """Open a file for each name.

    The files are gone with the last process that has them open.
    """
    with ExitStack() as stack:
        yield ArtifactFiles(
            by_name={name: stack.enter_context(tempfile.TemporaryFile()) for name in names}
        )
