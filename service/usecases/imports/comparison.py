"""What the estimator says beside what was measured, quantity by quantity, before and after calibration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from service.calibration.field import excess_of
from service.estimator.estimate import PlanCache
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Estimate, Interval, Serving
from service.formats.measured.observe import Observation
from service.formats.measured.reading import Quantity, Reading
from service.usecases.questions.fit import FindCorrections, FitQuestion, judge_fit

Predicted = tuple[int, Interval | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One quantity, measured and predicted, in which interval; ``error`` is predicted / measured - 1.

    ``calibrated`` is the answer with what was learnt.
    """

    quantity: Quantity
    measured: Reading
    predicted: int
    calibrated: int | None
    interval: Interval | None

    @property
    def in_interval(self) -> bool | None:
        """Whether the reading lies in the interval of the analytic answer, where it has one."""
        return None if self.interval is None else self.interval.low <= self.measured.value <= self.interval.high

    @property
    def error(self) -> float:
        """Error of the analytic answer."""
        return self.predicted / self.measured.value - 1

    def document(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "quantity": self.quantity.value,
            "measured": self.measured.value,
            "predicted": self.predicted,
            "error": self.error,
            "calibrated": self.calibrated,
            "calibrated_error": None if self.calibrated is None else self.calibrated / self.measured.value - 1,
            "in_interval": self.in_interval,
            "low": None if self.interval is None else self.interval.low,
            "high": None if self.interval is None else self.interval.high,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was both measured and predicted, with the analytic answer; or a note that says why nothing was predicted."""

    quantities: tuple[Compared, ...] = ()
    plain: Estimate | None = None
    notes: tuple[str, ...] = ()

    @property
    def excess(self) -> str | None:
        """Why what was seen on the device cannot have been this job's alone; ``None`` where it may have been."""
        looks = {one.quantity: one for one in self.quantities}
        look = looks.get(Quantity.DEVICE) or looks.get(Quantity.DEVICE_TOTAL_USED)
        return None if look is None else excess_of(look.measured.low, look.predicted)


def compare(
    observation: Observation, question: FitQuestion, *, plans: PlanCache, find_corrections: FindCorrections | None
) -> Comparison:
    """Hold what was measured against what the estimator says."""
    try:
        plain = judge_fit(question, plans=plans).estimate
        learnt = (
            None if find_corrections is None else judge_fit(question, plans=plans, find_corrections=find_corrections).estimate
        )
    except EstimatorError as error:
        return Comparison(notes=(f"no prediction: {error.message}",))
    if learnt is not None and learnt.calibration is None:
        learnt = None
    found = tuple(
        compared
        for quantity in READERS
        if (measured := observation.peaks.get(quantity)) is not None
        and (compared := _compared(quantity, measured, plain, learnt)) is not None
    )
    return Comparison(quantities=found, plain=plain)


def _compared(quantity: Quantity, measured: Reading, plain: Estimate, learnt: Estimate | None) -> Compared | None:
    read = READERS[quantity]
    predicted = read(plain)
    if predicted is None or not measured.value:
        return None
    value, interval = predicted
    return Compared(
        quantity=quantity,
        measured=measured,
        predicted=value,
        calibrated=None if learnt is None or (again := read(learnt)) is None else again[0],
        interval=interval,
    )


def _component(*names: str) -> Callable[[Estimate], Predicted | None]:
    def read(answer: Estimate) -> Predicted | None:
        found = sum(part.bytes for part in answer.components if part.name in names)
        return (found, None) if found else None

    return read


def _pool(value: Callable[[Serving], int | None]) -> Callable[[Estimate], Predicted | None]:
    def read(answer: Estimate) -> Predicted | None:
        found = None if answer.serving is None else value(answer.serving)
        return None if found is None else (found, None)

    return read


READERS: Mapping[Quantity, Callable[[Estimate], Predicted | None]] = {
    Quantity.ALLOCATED: lambda answer: (answer.allocated_bytes, answer.allocated_interval),
    Quantity.RESERVED: lambda answer: (answer.reserved_bytes, answer.reserved_interval),
    Quantity.DEVICE: lambda answer: (answer.device_bytes, answer.device_interval),
    Quantity.DEVICE_TOTAL_USED: lambda answer: (answer.device_bytes, answer.device_interval),
    Quantity.KV_POOL: _pool(lambda serving: serving.kv_pool_bytes),
    Quantity.KV_POOL_TOKENS: _pool(lambda serving: serving.kv_pool_tokens),
    Quantity.WEIGHTS: _component("weights"),
    Quantity.CUDA_GRAPHS: _component("cuda_graphs"),
    Quantity.BUDGET: _pool(lambda serving: serving.budget_bytes),
}
"""The figure of an answer that stands for a quantity; those of an engine's log that no answer has are left alone."""
