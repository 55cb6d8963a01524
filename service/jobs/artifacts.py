"""Artifacts of a measurement, and their size limits."""

from enum import StrEnum

import msgspec

MAX_PACKED_BYTES = 64 * 1024**2
"""Limit of one artifact, gzipped: llama-3.1-70b, traced with all of its 80 layers, took 0.42 MB for
80,552 entries.
"""


class ArtifactName(StrEnum):
    """A file that can be requested with a measurement."""

    MEMORY_SNAPSHOT = "memory_snapshot"


MEDIA_TYPES = {ArtifactName.MEMORY_SNAPSHOT: "application/octet-stream"}
"""A pickle has no type of its own; whatever shows files in a browser must not guess one."""
FILE_NAMES: dict[str, str] = {ArtifactName.MEMORY_SNAPSHOT: "memory_snapshot.pickle"}
"""File name for saving: PyTorch's viewer goes by the ending."""
NO_SNAPSHOT = (
    "a processor has no caching allocator whose memory could be shown: ask for a memory_snapshot "
    "on device trace, which leads the same tensors through CUDA's, or on device cuda"
)


class KeptFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An artifact as its probe wrote it.

    ``bytes`` and SHA-256 are of its unpacked content, ``packed_bytes`` those that it has in the
    file.
    """

    name: ArtifactName
    bytes: int
    sha256: str
    packed_bytes: int
