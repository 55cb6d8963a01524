"""Predicted times beside those that GPUs took."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, log
from statistics import correlation, fmean, median

from service.estimator.speed.rates import Rates
from tests.accuracy.times.rows import TimedRow

_BOTH = 2
RatesOf = Callable[[TimedRow], Rates | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedScore:
    """One quantity of one row, in seconds."""

    file: str
    name: str
    quantity: str
    predicted_s: float
    measured_s: float

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted_s / self.measured_s - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeErrors:
    """Errors of some scores: absolute ones by quantile, and the mean of the signed ones."""

    num: int
    median: float
    p90: float
    bias: float


def use_gpu_rates(_: TimedRow) -> None:
    """Take the rates of the row's GPU as they are shipped."""


def score_rows(
    rows: Iterable[TimedRow], rates_of: RatesOf = use_gpu_rates
) -> tuple[TimedScore, ...]:
    """Return a score for each quantity of each row."""
    return tuple(
        TimedScore(
            file=row.file,
            name=row.name,
            quantity=quantity,
            predicted_s=predicted[quantity],
            measured_s=measured,
        )
        for row in rows
        for predicted in (row.predict(rates_of(row)),)
        for quantity, measured in row.seconds.items()
    )


def correlate_gpus(scores: Sequence[TimedScore]) -> tuple[int, float]:
    """Return how many times two GPUs have in common, and how their errors there correlate.

    A term that is missing of a case is missing on both; what a host was slow at is not.
    """
    errors: dict[tuple[str, str], list[float]] = {}
    for score in scores:
        logarithm = log(score.predicted_s / score.measured_s)
        errors.setdefault((score.name, score.quantity), []).append(logarithm)
    pairs = [pair for pair in errors.values() if len(pair) == _BOTH]
    first, second = zip(*pairs, strict=True)
    return len(pairs), correlation(first, second)


def summarise_errors(scores: Sequence[TimedScore]) -> TimeErrors:
    """Return the errors of at least one score, each alike."""
    errors = sorted(abs(score.error) for score in scores)
    return TimeErrors(
        num=len(errors),
        median=median(errors),
        p90=errors[ceil(0.9 * len(errors)) - 1],
        bias=fmean(score.error for score in scores),
    )
