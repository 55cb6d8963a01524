"""What the database gives out: frozen values, never rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from service.planner.inventory import ClusterInventory
from service.planner.reservation import Reservation, Share

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelContent:
    """A model as it was sent (``source``) and as it was understood."""

    source: Json
    architecture: Json
    family: str
    fingerprint: str
    num_parameters: int
    num_active_parameters: int
    num_embedding_parameters: int
    parameters_by_module: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """One revision of a model; what ``revision_id`` names never changes, so it may be cached for ever."""

    name: str
    revision: int
    revision_id: UUID
    content: ModelContent
    created_at: datetime
    updated_at: datetime

    @property
    def etag(self) -> str:
        """Opaque version, without quotes; another one after every change, and after a deletion under the same name."""
        return self.revision_id.hex


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCluster:
    """A cluster, how often it was replaced, and the reservations that lived when it was read."""

    id: UUID
    name: str
    version: int
    inventory: ClusterInventory
    created_at: datetime
    updated_at: datetime
    reservations: tuple[Reservation, ...] = ()

    @property
    def etag(self) -> str:
        """Opaque version, without quotes; another one after every change, and after a deletion under the same name."""
        return f"{self.id.hex}-{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReservation:
    """What was promised to whom on which cluster; it has ended when it was released, or at ``expires_at``."""

    id: UUID
    cluster: str
    holder: str
    shares: tuple[Share, ...]
    created_at: datetime
    expires_at: datetime
    released_at: datetime | None = None

    @property
    def etag(self) -> str:
        """Opaque version, without quotes: a reservation does not change while it lives."""
        return self.id.hex


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCalibration:
    """What measurements (``evidence``) taught about one key and quantity; ``scope`` says in words what the key stands for."""

    key: str
    quantity: str
    scope: Json
    correction: Json
    evidence: tuple[UUID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCalibration:
    """A calibration that is stored; the newest of its key and quantity holds."""

    id: UUID
    key: str
    quantity: str
    scope: Json
    correction: Json
    evidence: tuple[UUID, ...]
    created_at: datetime
