"""What the database gives out: frozen values, never rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from service.planner.cluster.inventory import ClusterInventory
from service.planner.cluster.reservation import Reservation, Share

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
    curve: str = ""
    kind: str = ""
    family: str = ""
    environment: str = ""


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
    curve: str = ""
    kind: str = ""
    family: str = ""
    environment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewResidual:
    """A measurement beside its answers, in bytes or nanoseconds: before and after what was learnt, with their intervals."""

    job_id: UUID
    quantity: str
    curve: str
    kind: str
    family: str
    environment: str
    device: str
    gpu: str | None
    measured: int
    predicted: int
    interval: tuple[int, int] | None
    after: int
    after_interval: tuple[int, int] | None
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyFilter:
    """Which residuals count; ``None`` does not filter."""

    family: str | None = None
    gpu: str | None = None
    device: str | None = None
    quantity: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSummary:
    """Relative errors of one class: absolute ones, but for ``bias``; ``None`` where no answer gave an interval."""

    median: float
    p95: float
    bias: float
    coverage: float | None
    width: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassAccuracy:
    """What the measurements of one class say of the answers before and after what was learnt."""

    kind: str
    quantity: str
    count: int
    before: ErrorSummary
    after: ErrorSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Surprises:
    """How many measurements were promised an interval, and how many of them lay outside of it."""

    kind: str
    quantity: str
    environment: str
    measured: int
    outside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCount:
    """Answers of one class ``before`` or ``after`` calibration whose absolute relative error lies in one bucket.

    ``place`` counts the bounds that the error is not below; ``total`` is the sum of the errors.
    """

    kind: str
    quantity: str
    when: str
    place: int
    count: int
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveHistory:
    """Measurements of one question in one environment: how many were promised an interval, how many lay outside of it.

    ``bias`` is the mean of measured over the analytic answer, minus one.
    """

    curve: str
    quantity: str
    environment: str
    measured: int
    outside: int
    bias: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """What a job is stored with beside its request: its calibration key, its attempts, and where it was asked for."""

    key: str
    max_attempts: int
    phase: str
    request_id: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCount:
    """Jobs that have device, source, state and problem in common, and the attempts that were made at all of them."""

    device: str
    source: str
    state: str
    reason: str | None = None
    jobs: int = 0
    attempts: int = 0
    retries: int = 0
    lost_leases: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCount:
    """Jobs that wait for one device at one priority, and the seconds that the first of them has waited."""

    device: str
    weight: int
    jobs: int
    oldest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationAge:
    """Keys that were calibrated for one quantity, and the seconds since the newest calibration."""

    quantity: str
    num_keys: int
    newest_s: float
