"""Errors of answers against measurements, before and after calibration."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from service.calibration.conformal import is_coverage_too_low
from service.db.queries import residuals as queries
from service.db.queries.metrics import list_calibration_ages
from service.db.records.stored import (
    AccuracyFilter,
    CalibrationAge,
    ClassAccuracy,
    ErrorCount,
    IntervalMisses,
)
from service.db.session import transaction
from service.usecases.stored import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningStatistics:
    """Counts of what calibration learnt.

    Errors by class, in buckets and in sum; promised intervals that were kept and missed; keys by
    quantity.

    ``drifting`` counts the environments of a kind and quantity with more interval misses than their
    intervals let expect.
    """

    errors: tuple[ErrorCount, ...] = ()
    classes: tuple[ClassAccuracy, ...] = ()
    promises: tuple[IntervalMisses, ...] = ()
    drifting: Mapping[tuple[str, str], int] = field(default_factory=dict)
    keys: tuple[CalibrationAge, ...] = ()


ERROR_BOUNDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Buckets of absolute relative errors, from what a block's rounding makes to what is no answer."""


def read_accuracy(sessions: Sessions, filters: AccuracyFilter) -> tuple[ClassAccuracy, ...]:
    """Return errors by kind of run, quantity and GPU, largest class first."""
    with transaction(sessions) as session:
        return queries.summarize_accuracy(session, filters, by_gpu=True)


def count_interval_misses(sessions: Sessions) -> tuple[IntervalMisses, ...]:
    """Count the newest measurements outside their promised intervals, by kind."""
    with transaction(sessions) as session:
        return queries.count_interval_misses(session)


def read_learning_statistics(sessions: Sessions) -> LearningStatistics:
    """Return everything that was learnt, counted."""
    with transaction(sessions) as session:
        misses = queries.count_interval_misses(session)
        return LearningStatistics(
            errors=queries.count_errors(session, ERROR_BOUNDS),
            classes=queries.summarize_accuracy(session, AccuracyFilter()),
            promises=queries.count_promised_intervals(session),
            drifting=Counter(
                (miss.kind, miss.quantity)
                for miss in misses
                if is_coverage_too_low(miss.outside, miss.measured)
            ),
            keys=list_calibration_ages(session),
        )
