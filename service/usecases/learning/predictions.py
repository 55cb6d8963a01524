"""Predictions beside measurements, and their errors."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from service.estimator.cache import PlanCache
from service.estimator.values.result import Instant
from service.jobs.contract import MeasureRequest, ProbeDevice, ProbeResult
from service.usecases.learning.analytic_answers import (
    AnalyticAnswer,
    compute_analytic_answer,
    has_run_its_tokens,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """One quantity, measured and predicted.

    ``error`` is predicted / measured - 1, ``low`` to ``high`` the 0.95 interval.
    """

    quantity: str
    measured: int
    predicted: int
    error: float
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The analytic answer beside a measurement.

    It is of allocated bytes, and of all that a GPU tells in ``quantities``.

    ``low`` to ``high`` is the 0.95 interval of the allocated bytes, ``instants`` what was predicted
    of each part of the step.
    """

    allocated_bytes: int
    error: float
    low: int
    high: int
    instants: tuple[Instant, ...]
    quantities: tuple[Residual, ...] = ()


def predict(request: MeasureRequest, result: ProbeResult) -> Prediction | None:
    """Return the error of the analytic answer.

    ``None`` where the estimator has no answer, or there is no measured number to compare it with.
    """
    analytic = compute_analytic_answer(request, PlanCache(), environment=result.environment)
    measured = result.peaks.allocated_bytes
    if analytic is None or result.peaks.out_of_memory or not measured:
        return None
    if not has_run_its_tokens(
        analytic.point, msgspec.to_builtins(result.probes), extrapolated=result.extrapolated
    ):
        return None
    estimate = analytic.estimate
    return Prediction(
        allocated_bytes=estimate.allocated_bytes,
        error=estimate.allocated_bytes / measured - 1,
        low=estimate.allocated_interval.low,
        high=estimate.allocated_interval.high,
        instants=estimate.instants,
        quantities=tuple(_iter_residuals(result, analytic))
        if request.device is ProbeDevice.CUDA
        else (),
    )


def _iter_residuals(result: ProbeResult, analytic: AnalyticAnswer) -> Iterator[Residual]:
    estimate, peaks = analytic.estimate, result.peaks
    for name, measured, predicted, interval in (
        (
            "allocated_bytes",
            peaks.allocated_bytes,
            estimate.allocated_bytes,
            estimate.allocated_interval,
        ),
        (
            "reserved_bytes",
            peaks.reserved_bytes,
            estimate.reserved_bytes,
            estimate.reserved_interval,
        ),
        ("device_bytes", peaks.device_bytes, estimate.device_bytes, estimate.device_interval),
    ):
        if measured:
            error = predicted / measured - 1
            yield Residual(
                quantity=name,
                measured=measured,
                predicted=predicted,
                error=error,
                low=interval.low,
                high=interval.high,
            )
