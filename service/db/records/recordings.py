"""Recordings as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from service.jobs.states import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Compressed document of a recording, with the address of its content.

    A model has one where no module is written for its type; lists of models leave it out.
    """

    digest: str
    packed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecording:
    """Progress of the recording of a config, by its newest job.

    ``weights`` is the document of its weights alone; ``recording`` is there once it is complete.
    """

    config_digest: str
    job_id: UUID
    status: Status
    progress: float
    phase: str
    device: str
    error: Mapping[str, object] | None
    weights: bytes | None = None
    transformers: str | None = None
    torch: str | None = None
    recording: Recording | None = None

    @property
    def is_refused(self) -> bool:
        """Whether its job ended without a recording."""
        return self.status.is_terminal and self.recording is None
