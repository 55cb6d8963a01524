"""What a measurement says about the estimator: how far off it was, and what it should answer from now on."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

import msgspec
from sqlalchemy.orm import Session

from service.calibration.apply import point_of, to_document
from service.calibration.derive import Evidence, MeasuredPoint, calibrate
from service.calibration.key import calibration_scope, is_reference
from service.db.measurement import StoredMeasurement, StoredResult
from service.db.queries.calibrations import add_calibration, lock_key
from service.db.queries.measurements import succeeded_with_key
from service.db.values import NewCalibration
from service.estimator.architecture import Architecture
from service.estimator.device import Device
from service.estimator.errors import EstimatorError
from service.estimator.estimate import PlanCache, estimate
from service.estimator.families.registry import architecture_from_spec
from service.estimator.result import Estimate
from service.jobs.contract import MeasureRequest, ProbeResult, ProtocolError, parse_measure_request
from service.logs import logger

QUANTITY = "allocated"
MAX_EVIDENCE = 50
"""Of one key the newest measurements count."""

# Allocated bytes do not depend on the device; this one holds whatever is asked.
ANY_DEVICE = Device(name="any", vendor="any", capacity_bytes=1 << 60, usable_bytes=1 << 60)

_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The analytic answer beside what was measured; ``error`` is predicted / measured - 1."""

    allocated_bytes: int
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A question, and what the estimator says about it without any measurement."""

    architecture: Architecture
    estimate: Estimate


def predict(request: MeasureRequest, result: ProbeResult) -> Prediction | None:
    """Return how far off the analytic answer was; ``None`` where it has no answer, or there is no number to hold it against."""
    answered = answer(request, PlanCache())
    measured = result.peaks.allocated_bytes
    if answered is None or result.peaks.out_of_memory or not measured:
        return None
    if not _ran_its_tokens(_point(answered, request), msgspec.to_builtins(result.probes), extrapolated=result.extrapolated):
        return None
    predicted = answered.estimate.allocated_bytes
    return Prediction(allocated_bytes=predicted, error=predicted / measured - 1)


def learn(session: Session, job_id: UUID, *, key: str, request: MeasureRequest) -> UUID | None:
    """Store what all measurements of ``key`` teach together; ``None`` when the one of ``job_id`` may teach nothing.

    It must have been stored in this transaction; others that learn about the same key wait until it is over.
    """
    lock_key(session, key)
    plans = PlanCache()
    answered = answer(request, plans)
    calibration = calibrate(tuple(_evidence(session, key, plans)))
    if answered is None or calibration is None or str(job_id) not in calibration.evidence:
        return None
    workload = request.task.workload
    return add_calibration(
        session,
        NewCalibration(
            key=key,
            quantity=QUANTITY,
            scope=calibration_scope(answered.architecture, workload, request.layout),
            correction=to_document(calibration),
            evidence=tuple(UUID(measurement) for measurement in calibration.evidence),
        ),
    )


def answer(request: MeasureRequest, plans: PlanCache) -> Answered | None:
    """Return the analytic answer; ``None`` for what the estimator has no term for yet."""
    try:
        architecture = architecture_from_spec(request.model.architecture)
        found = estimate(architecture, request.task.workload, layout=request.layout, device=ANY_DEVICE, plans=plans)
    except EstimatorError as error:
        _log.info("prediction.none", reason=error.message, field=error.field)
        return None
    return Answered(architecture=architecture, estimate=found)


def _evidence(session: Session, key: str, plans: PlanCache) -> Iterator[Evidence]:
    """Give the measurements of a key that ran the asked tokens under the releases which keys stand for, oldest first."""
    for stored in reversed(succeeded_with_key(session, key, limit=MAX_EVIDENCE)):
        if stored.result is None or not is_reference(stored.result.environment):
            continue
        try:
            request = parse_measure_request(stored.request)
        except ProtocolError as error:
            _log.warning("evidence.unreadable", job_id=str(stored.id), reason=str(error))
            continue
        answered = answer(request, plans)
        if answered is None:
            continue
        point = _point(answered, request)
        if _ran_its_tokens(point, stored.result.probes, extrapolated=stored.result.extrapolated):
            yield _beside(stored, stored.result, point, answered)


def _point(answered: Answered, request: MeasureRequest) -> MeasuredPoint:
    return point_of(answered.architecture, request.task.workload, request.layout)


def _ran_its_tokens(point: MeasuredPoint, probes: Iterable[Mapping[str, object]], *, extrapolated: bool) -> bool:
    """Tell whether the asked batch and lengths were run: where fewer were, the answer is the analytic one with a shift."""
    asked = (point.micro_batch_size, point.sequence_length + point.output_tokens, point.output_tokens)
    sizes = ((probe["micro_batch_size"], probe["sequence_length"], probe["output_tokens"]) for probe in probes)
    return not extrapolated or asked in sizes


def _beside(stored: StoredMeasurement, result: StoredResult, point: MeasuredPoint, answered: Answered) -> Evidence:
    return Evidence(
        measurement=str(stored.id),
        point=point,
        measured={str(reading["name"]): int(str(reading["allocated_bytes"])) for reading in result.instants},
        predicted={instant.name: instant.allocated_bytes for instant in answered.estimate.instants},
        transferable=result.transferable,
        extrapolated=result.extrapolated,
        out_of_memory=bool(result.peaks["out_of_memory"]),
    )
