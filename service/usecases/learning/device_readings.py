"""What was seen of whole GPUs, stored as bounds beside what is learnt of their parts, with how far answers were below it."""

from collections.abc import Iterator, Mapping
from uuid import UUID

from sqlalchemy.orm import Session

from service.calibration.derive import Calibration
from service.calibration.document import to_document
from service.calibration.evidence import EXACT_SHARE, Quantity
from service.calibration.field import CURVE, Seen, bounds_of, field_curve, least_at
from service.calibration.key import calibration_scope, kind_of
from service.calibration.pool import Level
from service.db.queries.calibrations import add_calibration, newest_of_curve
from service.db.queries.residuals import forget_residuals, write_residuals
from service.db.records.stored import NewCalibration, NewResidual
from service.usecases.learning.evidence import Found


def learn_seen(session: Session, own: Found, peers: Mapping[UUID, Found], *, curve: str) -> UUID | None:
    """Store what a key's readings of whole GPUs bound in one environment; ``None`` where there were none, nor are any."""
    calibration = bounds_of([one.seen for one in peers.values() if one.seen is not None])
    if calibration is None:
        if newest_of_curve(session, field_curve(curve), Quantity.DEVICE.value) is None or not _is_look(own):
            return None
        # The last of them was withdrawn.
        calibration = Calibration(quantity=Quantity.DEVICE, curves={}, relative_error=EXACT_SHARE, evidence=())
    calibration_id = add_calibration(session, _row(own, curve, calibration))
    for refused in calibration.rejected:
        forget_residuals(session, UUID(refused.measurement))
    write_residuals(session, list(_residuals(own, peers, curve, calibration)))
    return calibration_id if own.seen is not None and own.seen.measurement in calibration.evidence else None


def _is_look(found: Found) -> bool:
    return found.seen is not None and not found.seen.whole


def _kind(found: Found) -> str:
    request = found.answered.request
    return f"{CURVE}, {kind_of(request.task.workload, request.layout, Quantity.RESERVED)}"


def _row(own: Found, curve: str, calibration: Calibration) -> NewCalibration:
    request, environment = own.answered.request, own.environment
    own_evidence = () if own.seen is None else (own.seen.measurement,)
    return NewCalibration(
        key=environment.place.address(field_curve(curve)),
        quantity=Quantity.DEVICE.value,
        scope={
            **calibration_scope(own.answered.architecture, request.task.workload, request.layout),
            "environment": environment.name,
            "gpu": environment.gpu,
        },
        correction=to_document(calibration),
        # A row names what it came of: of a withdrawal, the measurement that was withdrawn.
        evidence=tuple(UUID(measurement) for measurement in calibration.evidence or own_evidence),
        curve=field_curve(curve),
        kind=_kind(own),
        family=own.answered.architecture.family,
        environment=environment.name,
    )


def _residuals(own: Found, peers: Mapping[UUID, Found], curve: str, calibration: Calibration) -> Iterator[NewResidual]:
    """Yield each bound beside the answer without it: an interval that reaches a lower bound from below holds it."""
    for job_id, found in peers.items():
        if found.seen is not None and str(job_id) in calibration.evidence:
            yield _residual(own, job_id, found, found.seen, curve, calibration)


def _residual(own: Found, job_id: UUID, found: Found, seen: Seen, curve: str, calibration: Calibration) -> NewResidual:
    high = found.answered.estimate.device_interval.high
    others = least_at(calibration, seen.point, without=seen.measurement)
    answer = max(seen.predicted, others)
    return NewResidual(
        job_id=job_id,
        quantity=Quantity.DEVICE.value,
        curve=field_curve(curve),
        kind=_kind(own),
        family=own.answered.architecture.family,
        environment=found.environment.name,
        device=found.answered.request.device.value,
        gpu=found.environment.gpu or found.answered.request.gpu,
        measured=seen.bytes,
        predicted=seen.predicted,
        interval=(0, high),
        after=answer,
        after_interval=(0, high + answer - seen.predicted),
        level=(Level.KEY if others > seen.predicted else Level.NONE).value,
    )
