"""Readings of whole GPUs, stored as lower bounds of device bytes.

They are stored beside calibrations of the parts, with how far answers were below them.
"""

from collections.abc import Iterator, Mapping
from uuid import UUID

from sqlalchemy.orm import Session

from service.calibration.derive import Calibration
from service.calibration.document import to_document
from service.calibration.evidence import EXACT_SHARE, Quantity
from service.calibration.field import (
    CURVE,
    DeviceReading,
    derive_bounds,
    get_device_curve,
    get_lower_bound,
)
from service.calibration.key import describe_calibration_key, get_run_kind
from service.calibration.pool import Level
from service.db.queries.calibrations import add_calibration, find_newest_of_curve
from service.db.queries.residuals import forget_residuals, write_residuals
from service.db.records.stored import NewCalibration, NewResidual
from service.usecases.learning.evidence import EvidenceSet


def learn_device_readings(
    session: Session, current: EvidenceSet, peers: Mapping[UUID, EvidenceSet], *, curve: str
) -> UUID | None:
    """Store the bounds of a key's device readings in one environment.

    ``None`` where there were none before, nor are any now.
    """
    calibration = derive_bounds(
        [peer.device_reading for peer in peers.values() if peer.device_reading is not None]
    )
    if calibration is None:
        if find_newest_of_curve(
            session, get_device_curve(curve), Quantity.DEVICE.value
        ) is None or not _is_lower_bound(current):
            return None
        # The last of them was withdrawn.
        calibration = Calibration(
            quantity=Quantity.DEVICE, curves={}, relative_error=EXACT_SHARE, evidence=()
        )
    calibration_id = add_calibration(session, _make_calibration_row(current, curve, calibration))
    if not current.is_of_cluster:
        for refused in calibration.rejected:
            forget_residuals(session, UUID(refused.measurement))
        write_residuals(session, list(_iter_residuals(current, peers, curve, calibration)))
    return (
        calibration_id
        if current.device_reading is not None
        and current.device_reading.measurement in calibration.evidence
        else None
    )


def _is_lower_bound(evidence_set: EvidenceSet) -> bool:
    return evidence_set.device_reading is not None and not evidence_set.device_reading.is_full_peak


def _get_kind(evidence_set: EvidenceSet) -> str:
    request = evidence_set.analytic.request
    return f"{CURVE}, {get_run_kind(request.task.workload, request.layout, Quantity.RESERVED)}"


def _make_calibration_row(
    current: EvidenceSet, curve: str, calibration: Calibration
) -> NewCalibration:
    request, environment = current.analytic.request, current.environment
    own_evidence = () if current.device_reading is None else (current.device_reading.measurement,)
    return NewCalibration(
        key=environment.key.build_curve_key(get_device_curve(curve)),
        quantity=Quantity.DEVICE.value,
        scope={
            **describe_calibration_key(
                current.analytic.architecture, request.task.workload, request.layout
            ),
            "environment": environment.name,
            "gpu": environment.gpu,
        },
        correction=to_document(calibration),
        # A row names what it came of: of a withdrawal, the measurement that was withdrawn.
        evidence=tuple(UUID(measurement) for measurement in calibration.evidence or own_evidence),
        curve=get_device_curve(curve),
        kind=_get_kind(current),
        family=current.analytic.architecture.family,
        environment=environment.name,
    )


def _iter_residuals(
    current: EvidenceSet, peers: Mapping[UUID, EvidenceSet], curve: str, calibration: Calibration
) -> Iterator[NewResidual]:
    """Yield each bound beside the answer without it.

    An interval that reaches a lower bound from below contains it.
    """
    for job_id, evidence_set in peers.items():
        if evidence_set.device_reading is not None and str(job_id) in calibration.evidence:
            yield _make_residual(
                current, job_id, evidence_set, evidence_set.device_reading, curve, calibration
            )


def _make_residual(
    current: EvidenceSet,
    job_id: UUID,
    evidence_set: EvidenceSet,
    reading: DeviceReading,
    curve: str,
    calibration: Calibration,
) -> NewResidual:
    high = evidence_set.analytic.estimate.device_interval.high
    lower_bound = get_lower_bound(calibration, reading.point, without=reading.measurement)
    answer = max(reading.predicted, lower_bound)
    return NewResidual(
        job_id=job_id,
        quantity=Quantity.DEVICE.value,
        curve=get_device_curve(curve),
        kind=_get_kind(current),
        family=current.analytic.architecture.family,
        environment=evidence_set.environment.name,
        device=evidence_set.analytic.request.device.value,
        gpu=evidence_set.environment.gpu or evidence_set.analytic.request.gpu,
        measured=reading.bytes,
        predicted=reading.predicted,
        interval=(0, high),
        after=answer,
        after_interval=(0, high + answer - reading.predicted),
        level=(Level.KEY if lower_bound > reading.predicted else Level.NONE).value,
    )
