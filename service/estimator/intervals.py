"""How far readings lie from answers: the relative widths of 0.95 intervals, by kind of answer and quantity.

The widths are residuals on cases that no rule was chosen by (split conformal prediction, arXiv:1604.04173), written down in
``interval_table`` by ``python -m tests.accuracy.intervals --write``.
"""

from service.estimator.interval_table import POOLED, WIDTHS
from service.estimator.result import Interval

PER_MILLION = 1_000_000


def width_of(kind: str, quantity: str) -> tuple[int, int]:
    """Return the lowest and highest reading over the answer, in parts per million; of all kinds where one has too few cases."""
    return WIDTHS.get((kind, quantity), POOLED[quantity])


def widened(low: int, high: int, kind: str, quantity: str) -> Interval:
    """Return what lies between two figures, with the residuals of its kind around it."""
    below, above = width_of(kind, quantity)
    return Interval(low * below // PER_MILLION, -(-high * above // PER_MILLION))
