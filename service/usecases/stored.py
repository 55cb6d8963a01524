"""Session factory, pages and stored values that use-case callers name."""

from sqlalchemy.orm import Session, sessionmaker

from service.db.pages import Page, PageRequest, make_page_by_name
from service.db.records.measurements import (
    MeasurementFilter,
    MeasurementLine,
    MeasurementSort,
    StoredEvent,
    StoredMeasurement,
    StoredResidual,
    StoredResult,
    StoredSample,
)
from service.db.records.models import ModelContent, ModelState, StoredModel
from service.db.records.recordings import ConfigRecording
from service.db.records.stored import (
    AccuracyFilter,
    ClassAccuracy,
    ErrorCount,
    ErrorSummary,
    JobCount,
    SchedulerJob,
    StoredCalibration,
    StoredCluster,
    StoredReservation,
)

Sessions = sessionmaker[Session]

__all__ = [
    "AccuracyFilter",
    "ClassAccuracy",
    "ConfigRecording",
    "ErrorCount",
    "ErrorSummary",
    "JobCount",
    "MeasurementFilter",
    "MeasurementLine",
    "MeasurementSort",
    "ModelContent",
    "ModelState",
    "Page",
    "PageRequest",
    "SchedulerJob",
    "Sessions",
    "StoredCalibration",
    "StoredCluster",
    "StoredEvent",
    "StoredMeasurement",
    "StoredModel",
    "StoredReservation",
    "StoredResidual",
    "StoredResult",
    "StoredSample",
    "make_page_by_name",
]
