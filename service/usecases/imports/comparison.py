"""Answers compared with measurements, before and after calibration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from service.calibration.field import explain_excess
from service.estimator.cache import PlanCache
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Estimate, Interval, Serving
from service.formats.measured.observe import Observation
from service.formats.measured.reading import Quantity, Reading
from service.usecases.questions.fit import FindCorrections, FitQuestion, judge_fit

Predicted = tuple[int, Interval | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantityComparison:
    """One quantity, measured and predicted, with its interval.

    ``error`` is predicted / measured - 1. ``calibrated`` is the calibrated answer.
    """

    quantity: Quantity
    measured: Reading
    predicted: int
    calibrated: int | None
    interval: Interval | None

    @property
    def in_interval(self) -> bool | None:
        """Whether the reading lies in the analytic interval.

        ``None`` where the analytic answer has no interval.
        """
        return (
            None
            if self.interval is None
            else self.interval.low <= self.measured.value <= self.interval.high
        )

    @property
    def error(self) -> float:
        """Error of the analytic answer."""
        return self.predicted / self.measured.value - 1

    def to_document(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "quantity": self.quantity.value,
            "measured": self.measured.value,
            "predicted": self.predicted,
            "error": self.error,
            "calibrated": self.calibrated,
            "calibrated_error": None
            if self.calibrated is None
            else self.calibrated / self.measured.value - 1,
            "in_interval": self.in_interval,
            "low": None if self.interval is None else self.interval.low,
            "high": None if self.interval is None else self.interval.high,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Quantities both measured and predicted, with the analytic estimate.

    Where nothing was predicted, a note says why.
    """

    quantities: tuple[QuantityComparison, ...] = ()
    analytic_estimate: Estimate | None = None
    notes: tuple[str, ...] = ()

    @property
    def excess_reason(self) -> str | None:
        """Reason why device memory exceeds this job's own.

        ``None`` where the reading may have been of this job alone.
        """
        by_quantity = {comparison.quantity: comparison for comparison in self.quantities}
        device = by_quantity.get(Quantity.DEVICE) or by_quantity.get(Quantity.DEVICE_TOTAL_USED)
        return None if device is None else explain_excess(device.measured.low, device.predicted)


def compare(
    observation: Observation,
    question: FitQuestion,
    *,
    plans: PlanCache,
    find_corrections: FindCorrections | None,
) -> Comparison:
    """Compare an observation with the estimator's answer."""
    try:
        analytic = judge_fit(question, plans=plans).estimate
        calibrated = (
            None
            if find_corrections is None
            else judge_fit(question, plans=plans, find_corrections=find_corrections).estimate
        )
    except EstimatorError as error:
        return Comparison(notes=(f"no prediction: {error.message}",))
    if calibrated is not None and calibrated.calibration is None:
        calibrated = None
    quantities = tuple(
        compared
        for quantity in READERS
        if (measured := observation.peaks.get(quantity)) is not None
        and (compared := _compare_quantity(quantity, measured, analytic, calibrated)) is not None
    )
    return Comparison(quantities=quantities, analytic_estimate=analytic)


def _compare_quantity(
    quantity: Quantity, measured: Reading, analytic: Estimate, calibrated_answer: Estimate | None
) -> QuantityComparison | None:
    read = READERS[quantity]
    predicted = read(analytic)
    if predicted is None or not measured.value:
        return None
    value, interval = predicted
    return QuantityComparison(
        quantity=quantity,
        measured=measured,
        predicted=value,
        calibrated=None
        if calibrated_answer is None or (calibrated_figures := read(calibrated_answer)) is None
        else calibrated_figures[0],
        interval=interval,
    )


def _make_component_reader(*names: str) -> Callable[[Estimate], Predicted | None]:
    def read(answer: Estimate) -> Predicted | None:
        total_bytes = sum(part.bytes for part in answer.components if part.name in names)
        return (total_bytes, None) if total_bytes else None

    return read


def _make_pool_reader(
    value: Callable[[Serving], int | None],
) -> Callable[[Estimate], Predicted | None]:
    def read(answer: Estimate) -> Predicted | None:
        amount = None if answer.serving is None else value(answer.serving)
        return None if amount is None else (amount, None)

    return read


READERS: Mapping[Quantity, Callable[[Estimate], Predicted | None]] = {
    Quantity.ALLOCATED: lambda answer: (answer.allocated_bytes, answer.allocated_interval),
    Quantity.RESERVED: lambda answer: (answer.reserved_bytes, answer.reserved_interval),
    Quantity.DEVICE: lambda answer: (answer.device_bytes, answer.device_interval),
    Quantity.DEVICE_TOTAL_USED: lambda answer: (answer.device_bytes, answer.device_interval),
    Quantity.KV_POOL: _make_pool_reader(lambda serving: serving.kv_pool_bytes),
    Quantity.KV_POOL_TOKENS: _make_pool_reader(lambda serving: serving.kv_pool_tokens),
    Quantity.WEIGHTS: _make_component_reader("weights"),
    Quantity.CUDA_GRAPHS: _make_component_reader("cuda_graphs"),
    Quantity.BUDGET: _make_pool_reader(lambda serving: serving.budget_bytes),
}
"""Figure of an answer for each quantity. Quantities of an engine's log that no answer has are
absent.
"""
