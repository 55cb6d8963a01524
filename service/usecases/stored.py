"""What a caller of the use cases needs to name: the session factory, pages of lists, stored values."""

from sqlalchemy.orm import Session, sessionmaker

from service.db.pages import Page, PageRequest, page_of_named
from service.db.records.measurements import (
    KeptAnswer,
    MeasurementFilter,
    MeasurementLine,
    MeasurementSort,
    StoredEvent,
    StoredMeasurement,
    StoredResult,
    StoredSample,
)
from service.db.records.stored import (
    AccuracyFilter,
    ClassAccuracy,
    ErrorCount,
    ErrorSummary,
    JobCount,
    ModelContent,
    StoredCalibration,
    StoredCluster,
    StoredModel,
    StoredReservation,
)

Sessions = sessionmaker[Session]

__all__ = [
    "AccuracyFilter",
    "ClassAccuracy",
    "ErrorCount",
    "ErrorSummary",
    "JobCount",
    "KeptAnswer",
    "MeasurementFilter",
    "MeasurementLine",
    "MeasurementSort",
    "ModelContent",
    "Page",
    "PageRequest",
    "Sessions",
    "StoredCalibration",
    "StoredCluster",
    "StoredEvent",
    "StoredMeasurement",
    "StoredModel",
    "StoredReservation",
    "StoredResult",
    "StoredSample",
    "page_of_named",
]
