"""Files for what a probe keeps beside its numbers: open and without a name, so that nothing is left whoever is killed."""

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
class Files:
    """Open files by the names of what was asked for."""

    by_name: dict[ArtifactName, IO[bytes]]

    @property
    def descriptors(self) -> dict[ArtifactName, int]:
        """What a probe inherits."""
        return {name: file.fileno() for name, file in self.by_name.items()}

    def read(self, kept: Sequence[KeptFile]) -> tuple[PackedArtifact, ...]:
        """Return what a probe says that it kept; raises ProtocolError where it is not there as it says."""
        return tuple(self._read(one) for one in kept)

    def _read(self, kept: KeptFile) -> PackedArtifact:
        file = self.by_name.get(kept.name)
        size = 0 if file is None else os.fstat(file.fileno()).st_size
        if file is None or size != kept.packed_bytes or not 0 < size <= MAX_PACKED_BYTES:
            message = f"the probe says that it kept {kept.packed_bytes} bytes of {kept.name}, and there are {size}"
            raise ProtocolError(message)
        # The probe shares the file's position, so it may be anywhere.
        file.seek(0)
        return PackedArtifact(
            name=kept.name.value,
            media_type=MEDIA_TYPES[kept.name],
            bytes=kept.bytes,
            sha256=kept.sha256,
            packed=file.read(),
        )


@contextmanager
def open_files(names: Sequence[ArtifactName]) -> Iterator[Files]:
    """Open a file for each name; they are gone with the last process that has them open."""
    with ExitStack() as opened:
        yield Files(by_name={name: opened.enter_context(tempfile.TemporaryFile()) for name in names})
