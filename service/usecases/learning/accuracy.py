"""How far answers were from what was measured here, before and after what was learnt."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from service.calibration.conformal import too_many_outside
from service.db.queries import residuals as queries
from service.db.queries.census import calibration_ages
from service.db.records.stored import AccuracyFilter, CalibrationAge, ClassAccuracy, ErrorCount, Surprises
from service.db.session import transaction
from service.usecases.stored import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """What was learnt, in numbers: errors by class, in buckets and in sum, promises kept and broken, keys by quantity.

    ``drifting`` counts the environments of a kind and quantity where more surprises than its intervals let expect.
    """

    errors: tuple[ErrorCount, ...] = ()
    classes: tuple[ClassAccuracy, ...] = ()
    promises: tuple[Surprises, ...] = ()
    drifting: Mapping[tuple[str, str], int] = field(default_factory=dict)
    keys: tuple[CalibrationAge, ...] = ()


ERROR_BOUNDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Buckets of absolute relative errors, from what a block's rounding makes to what is no answer."""


def accuracy(sessions: Sessions, wanted: AccuracyFilter) -> tuple[ClassAccuracy, ...]:
    """Return the errors of each kind of run and quantity, the largest class first."""
    with transaction(sessions) as session:
        return queries.accuracy(session, wanted)


def surprises(sessions: Sessions) -> tuple[Surprises, ...]:
    """Return how often the newest measurements of each kind lay outside of what was promised."""
    with transaction(sessions) as session:
        return queries.surprises(session)


def learnt(sessions: Sessions) -> Learnt:
    """Return everything that was learnt, counted."""
    with transaction(sessions) as session:
        told = queries.surprises(session)
        return Learnt(
            errors=queries.histogram(session, ERROR_BOUNDS),
            classes=queries.accuracy(session, AccuracyFilter()),
            promises=queries.promises(session),
            drifting=Counter((one.kind, one.quantity) for one in told if too_many_outside(one.outside, one.measured)),
            keys=calibration_ages(session),
        )
