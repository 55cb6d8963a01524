"""Recordings as frozen values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Compressed document of a recording, with the address of its content.

    A model has one where no module is written for its type; lists of models leave it out.
    """

    digest: str
    packed: bytes
