"""Stored rows as frozen values."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from service.access.owners import Owner
from service.planner.cluster.inventory import ClusterInventory
from service.planner.cluster.reservation import Reservation, Share

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCluster:
    """A cluster with its version and live reservations.

    ``version`` counts its replacements. The reservations lived when it was read.
    """

    id: UUID
    name: str
    version: int
    inventory: ClusterInventory
    created_at: datetime
    updated_at: datetime
    reservations: tuple[Reservation, ...] = ()

    @property
    def etag(self) -> str:
        """Opaque version, without quotes."""
        return format_cluster_etag(self.id, self.version)


def format_cluster_etag(cluster_id: UUID, version: int) -> str:
    """Return a version that changes with every change, and after a deletion."""
    return f"{cluster_id.hex}-{version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerJob:
    """A job as its scheduler calls it."""

    scheduler: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReservation:
    """GPUs reserved for a holder on a cluster.

    It has ended when it was released, or at ``expires_at``.
    """

    id: UUID
    cluster: str
    holder: str
    shares: tuple[Share, ...]
    created_at: datetime
    expires_at: datetime
    released_at: datetime | None = None
    job: SchedulerJob | None = None
    created_by: Owner | None = None

    @property
    def etag(self) -> str:
        """Opaque version, without quotes: another end or job makes another version."""
        job = "" if self.job is None else f"{self.job.scheduler} {self.job.id}"
        version = f"{self.id.hex} {self.expires_at.timestamp():.6f} {job}"
        return hashlib.sha256(version.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCalibration:
    """A calibration of one key and quantity, to be stored.

    ``evidence`` names the measurements that it rests on; ``scope`` says in words what the key
    stands for.
    """

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
    """A stored calibration.

    The newest of its key and quantity is the current one.
    """

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
    """Residual of one measurement, in bytes or nanoseconds.

    It has the answers before and after what was learnt, with their intervals.
    """

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
    """Filter of residuals; ``None`` does not filter."""

    family: str | None = None
    gpu: str | None = None
    device: str | None = None
    quantity: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSummary:
    """Relative errors of one class.

    They are absolute ones, but for ``bias``; ``None`` where no answer gave an interval.
    """

    median: float
    p95: float
    bias: float
    coverage: float | None
    width: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassAccuracy:
    """Errors of one class before and after calibration.

    ``gpu`` is None where no GPU measured, and where all of them count together.
    """

    kind: str
    quantity: str
    count: int
    before: ErrorSummary
    after: ErrorSummary
    gpu: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalMisses:
    """Promised intervals of a class, and those that were missed.

    ``measured`` counts measurements with a promised interval, ``outside`` those of them that lay
    outside of it.
    """

    kind: str
    quantity: str
    environment: str
    measured: int
    outside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCount:
    """Answers of one class in one bucket of error.

    They are those ``before`` or ``after`` calibration, by absolute relative error.

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
    """Measurements of one question in one environment.

    ``measured`` counts those with a promised interval, ``outside`` those that lay outside of it.

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
    """Facts of a new job beside its request.

    They are its calibration key, its attempts, and where it was asked for.
    """

    key: str
    max_attempts: int
    phase: str
    request_id: str | None = None
    traceparent: str | None = None
    created_by: Owner | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCount:
    """Jobs and attempts by device, source, state and problem."""

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
    """Queued jobs of one device and priority.

    ``oldest_s`` is the seconds that the first of them has waited.
    """

    device: str
    weight: int
    jobs: int
    oldest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationAge:
    """Calibrated keys of one quantity.

    ``newest_s`` is the seconds since the newest calibration.
    """

    quantity: str
    num_keys: int
    newest_s: float
