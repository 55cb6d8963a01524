"""How far answers were from what was measured here, before and after what was learnt."""

from service.db.queries import residuals as queries
from service.db.session import transaction
from service.db.values import AccuracyFilter, ClassAccuracy, ErrorCount, Surprises
from service.usecases.access import Sessions

ERROR_BOUNDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Buckets of absolute relative errors, from what a block's rounding makes to what is no answer."""


def accuracy(sessions: Sessions, wanted: AccuracyFilter) -> tuple[ClassAccuracy, ...]:
    """Return the errors of each kind of run and quantity, the largest class first."""
    with transaction(sessions) as session:
        return queries.accuracy(session, wanted)


def error_counts(sessions: Sessions) -> tuple[ErrorCount, ...]:
    """Return how many answers lie in each bucket of ``ERROR_BOUNDS``."""
    with transaction(sessions) as session:
        return queries.histogram(session, ERROR_BOUNDS)


def surprises(sessions: Sessions) -> tuple[Surprises, ...]:
    """Return how often the newest measurements of each kind lay outside of what was promised."""
    with transaction(sessions) as session:
        return queries.surprises(session)
