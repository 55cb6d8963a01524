"""What a measurement says about the estimator: how far off it was, and what it should answer from now on."""

from dataclasses import dataclass

from service.estimator.device import Device
from service.estimator.errors import EstimatorError
from service.estimator.estimate import estimate
from service.estimator.families.registry import architecture_from_spec
from service.estimator.result import Estimate
from service.jobs.contract import MeasureRequest, ProbeResult
from service.logs import logger

# Allocated bytes do not depend on the device; this one holds whatever is asked.
ANY_DEVICE = Device(name="any", vendor="any", capacity_bytes=1 << 60, usable_bytes=1 << 60)

_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The analytic answer beside what was measured; ``error`` is predicted / measured - 1."""

    allocated_bytes: int
    error: float


def predict(request: MeasureRequest, result: ProbeResult) -> Prediction | None:
    """Return how far off the analytic answer was; ``None`` where it has no answer, or there is no number to hold it against."""
    predicted = analytic_answer(request)
    measured = result.peaks.allocated_bytes
    if predicted is None or result.peaks.out_of_memory or not measured:
        return None
    return Prediction(allocated_bytes=predicted.allocated_bytes, error=predicted.allocated_bytes / measured - 1)


def analytic_answer(request: MeasureRequest) -> Estimate | None:
    """Return what the estimator says without any measurement; ``None`` for what it has no term for yet."""
    try:
        architecture = architecture_from_spec(request.model.architecture)
        return estimate(architecture, request.task.workload, layout=request.layout, device=ANY_DEVICE)
    except EstimatorError as error:
        _log.info("prediction.none", reason=error.message, field=error.field)
        return None
