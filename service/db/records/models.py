"""Stored models as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from service.db.records.recordings import ConfigRecording, Recording

Json = Mapping[str, object]


class ModelState(StrEnum):
    """Whether a model can be asked about: now, soon or never."""

    READY = "ready"
    RECORDING = "recording"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelContent:
    """A model's source and everything derived from it."""

    source: Json
    architecture: Json
    family: str
    fingerprint: str
    num_parameters: int
    num_active_parameters: int
    num_embedding_parameters: int
    parameters_by_module: Mapping[str, int]
    recording: Recording | None = None
    config_digest: str | None = None
    """The config whose recording it waits for; its architecture is empty until then."""
    waits_for: ConfigRecording | None = None
    """How far that is, as it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """One revision of a model.

    What ``revision_id`` names never changes, so it may be cached for ever, once it waits for no
    recording.
    """

    name: str
    revision: int
    revision_id: UUID
    content: ModelContent
    created_at: datetime
    updated_at: datetime

    @property
    def state(self) -> ModelState:
        """Whether questions about it can be answered."""
        if self.content.config_digest is None:
            return ModelState.READY
        waits_for = self.content.waits_for
        refused = waits_for is not None and waits_for.is_refused
        return ModelState.REFUSED if refused else ModelState.RECORDING

    @property
    def etag(self) -> str:
        """Opaque version, without quotes; another one after every change and deletion."""
        return make_model_etag(self.revision_id, is_waiting=self.content.config_digest is not None)


def make_model_etag(revision_id: UUID, *, is_waiting: bool) -> str:
    """Return the version of a revision, another once it is recorded."""
    return f"{revision_id.hex}-recording" if is_waiting else revision_id.hex
