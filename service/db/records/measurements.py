"""Stored measurements as frozen values."""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from service.access.owners import Owner
from service.jobs.contract import MeasureRequest
from service.jobs.states import Status

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResult:
    """Result of a measurement, for the requested model.

    ``probes`` are the runs that it rests on.
    """

    attempt: int
    environment: Json
    peaks: Json
    instants: Sequence[Json]
    probes: Sequence[Json]
    step_time_s: Json | None
    prediction: Json | None
    extrapolated: bool
    transferable: bool
    steady_bytes: int | None
    notes: Sequence[str]
    calibration_id: UUID | None
    readings: Sequence[Json] = ()
    """Of an import: every number of the file that it rests on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedPlan:
    """A plan as a probe reported it, with request and worker."""

    plan: Json
    told_at: datetime
    worker: str | None
    request: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArtifact:
    """Description of a measurement's file.

    ``packed_bytes`` are those of its gzip, which is how it is stored.
    """

    name: str
    media_type: str
    bytes: int
    sha256: str
    packed_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedArtifact:
    """A probe's file, gzipped.

    ``bytes`` and SHA-256 are of the unpacked file.
    """

    name: str
    media_type: str
    bytes: int
    sha256: str
    packed: builtins.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMeasurement:
    """A job, and its result once it has succeeded.

    ``last_event`` is the number of its newest event.
    """

    id: UUID
    status: Status
    attempt: int
    max_attempts: int
    device: str
    gpu: str | None
    model_name: str | None
    model_revision: int | None
    request: Json
    key: str
    priority: int
    cancel_requested: bool
    progress: float
    phase: str
    worker: str | None
    error: Json | None
    last_event: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    deadline_at: datetime
    source: str = "probe"
    family: str | None = None
    task: str | None = None
    result: StoredResult | None = None
    artifacts: tuple[StoredArtifact, ...] = ()
    created_by: Owner | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewImport:
    """An imported measurement, stored unless its hash is."""

    id: UUID
    import_hash: str
    request: MeasureRequest
    key: str
    environment: Mapping[str, str]
    peaks: Json
    prediction: Json | None
    readings: Sequence[Json]
    notes: Sequence[str]
    created_by: Owner | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """One line of an event stream; ``seq`` is what ``Last-Event-ID`` names."""

    seq: int
    kind: str
    data: Json
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSample:
    """One reading, ``t_s`` seconds after the probe of ``attempt`` began."""

    attempt: int
    seq: int
    t_s: float
    kind: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementFilter:
    """Filter of a list of measurements; ``None`` does not filter.

    Times are those of the request. Errors are predicted / measured - 1 without its sign; with a
    bound on it, a measurement that has none is not shown.
    """

    model: str | None = None
    gpu: str | None = None
    status: Status | None = None
    device: str | None = None
    family: str | None = None
    task: str | None = None
    source: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    error_at_least: float | None = None
    error_at_most: float | None = None


class MeasurementSort(StrEnum):
    """Order of a list of measurements.

    By error, only measurements that have one are listed.
    """

    NEWEST = "-created_at"
    OLDEST = "created_at"
    WORST = "-error"
    BEST = "error"

    @property
    def is_by_error(self) -> bool:
        """Whether the order is by error."""
        return self in {MeasurementSort.WORST, MeasurementSort.BEST}

    @property
    def is_descending(self) -> bool:
        """Whether the order is descending."""
        return self.value.startswith("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResidual:
    """Answers of one quantity, in bytes or nanoseconds.

    They are the analytic answer, and the one that rests on all other measurements. Each has its
    0.95 interval where it gives one; ``kind`` is the class of runs whose errors are counted
    together.
    """

    kind: str
    predicted: int
    interval: tuple[int, int] | None
    after: int
    after_interval: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementLine:
    """One table line of a measurement.

    ``workload`` and ``layout`` are as in the request. ``residuals`` has the answers of each
    quantity.
    """

    id: UUID
    status: Status
    source: str
    device: str
    gpu: str | None
    model: str | None
    family: str | None
    task: str | None
    created_at: datetime
    finished_at: datetime | None
    workload: Json
    layout: Json
    problem: str | None
    environment: Json
    peaks: Json
    prediction: Json
    step_time_s: Json
    extrapolated: bool | None
    calibration_id: UUID | None
    residuals: Mapping[str, StoredResidual]
