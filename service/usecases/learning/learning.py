"""What a measurement says about the estimator: how far off it was, and what it should answer from now on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from uuid import UUID

import msgspec
from sqlalchemy.orm import Session

from service.calibration.derive import Calibration, calibrate
from service.calibration.document import to_document
from service.calibration.evidence import EXACT_SHARE, Evidence, Quantity
from service.calibration.key import calibration_scope
from service.calibration.pool import Group, Pools, parent_of, pools_of
from service.db.queries.calibrations import add_calibration, calibrations_like, lock_key
from service.db.queries.measurements import succeeded_with_key
from service.db.queries.residuals import forget_residuals
from service.db.records.measurements import StoredMeasurement
from service.db.records.stored import NewCalibration
from service.estimator.estimate import PlanCache
from service.estimator.values.result import Instant
from service.jobs.contract import MeasureRequest, ProbeDevice, ProbeResult
from service.usecases.learning.device_readings import learn_seen
from service.usecases.learning.evidence import Answered, Found, answer, found_in, ran_its_tokens
from service.usecases.learning.residuals import Lesson, member_of, promise_of, write_down
from service.usecases.learning.shipped_priors import group_of, shipped_evidence, shipped_members

MAX_EVIDENCE = 50
"""Of one key the newest measurements count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """One quantity, measured and predicted; ``error`` is predicted / measured - 1, ``low`` to ``high`` the 0.95 interval."""

    quantity: str
    measured: int
    predicted: int
    error: float
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The analytic answer beside what was measured: of allocated bytes, and of all that a GPU tells in ``quantities``.

    ``low`` to ``high`` is the 0.95 interval of the allocated bytes, ``instants`` what was predicted of each part of the step.
    """

    allocated_bytes: int
    error: float
    low: int
    high: int
    instants: tuple[Instant, ...]
    quantities: tuple[Beside, ...] = ()


def predict(request: MeasureRequest, result: ProbeResult) -> Prediction | None:
    """Return how far off the analytic answer was; ``None`` where it has no answer, or there is no number to hold it against."""
    answered = answer(request, PlanCache(), environment=result.environment)
    measured = result.peaks.allocated_bytes
    if answered is None or result.peaks.out_of_memory or not measured:
        return None
    if not ran_its_tokens(answered.point, msgspec.to_builtins(result.probes), extrapolated=result.extrapolated):
        return None
    estimate = answered.estimate
    return Prediction(
        allocated_bytes=estimate.allocated_bytes,
        error=estimate.allocated_bytes / measured - 1,
        low=estimate.allocated_interval.low,
        high=estimate.allocated_interval.high,
        instants=estimate.instants,
        quantities=tuple(_beside(result, answered)) if request.device is ProbeDevice.CUDA else (),
    )


def _beside(result: ProbeResult, answered: Answered) -> Iterator[Beside]:
    found, peaks = answered.estimate, result.peaks
    for name, measured, predicted, interval in (
        ("allocated_bytes", peaks.allocated_bytes, found.allocated_bytes, found.allocated_interval),
        ("reserved_bytes", peaks.reserved_bytes, found.reserved_bytes, found.reserved_interval),
        ("device_bytes", peaks.device_bytes, found.device_bytes, found.device_interval),
    ):
        if measured:
            error = predicted / measured - 1
            yield Beside(
                quantity=name, measured=measured, predicted=predicted, error=error, low=interval.low, high=interval.high
            )


def learn(session: Session, job_id: UUID, *, key: str) -> UUID | None:
    """Store what all measurements of ``key`` teach together; ``None`` when the one of ``job_id`` may teach nothing.

    It must have been stored in this transaction; others that learn about the same key wait until it is over. Measurements of
    another environment stay under the key that they have there.
    """
    lock_key(session, key)
    plans = PlanCache()
    found = _all_found(session, key, plans)
    own = found.get(job_id)
    if own is None:
        return None
    peers = {name: one for name, one in found.items() if one.environment == own.environment}
    taught = [_learn(session, job_id, own, peers, quantity, curve=key) for quantity in Quantity]
    taught.append(learn_seen(session, own, peers, curve=key) if own.seen is not None else None)
    return next((calibration_id for calibration_id in taught if calibration_id is not None), None)


def unlearn(session: Session, withdrawn: StoredMeasurement) -> None:
    """Store what the measurements of a key teach without one that was withdrawn in this transaction, if only nothing.

    What other keys took from it through their family they keep until something new is measured of them.
    """
    lock_key(session, withdrawn.key)
    forget_residuals(session, withdrawn.id)
    plans = PlanCache()
    own = found_in(withdrawn, plans)
    if own is None:
        return
    found = _all_found(session, withdrawn.key, plans)
    peers = {name: one for name, one in found.items() if one.environment == own.environment}
    for quantity in dict.fromkeys(sample.quantity for sample in own.evidence):
        _relearn(session, withdrawn, own, peers, quantity)
    if own.seen is not None:
        learn_seen(session, own, peers, curve=withdrawn.key)


def _relearn(session: Session, withdrawn: StoredMeasurement, own: Found, peers: dict[UUID, Found], quantity: Quantity) -> None:
    address, group = own.environment.place.address(withdrawn.key), group_of(own, quantity)
    pool = parent_of(_pools_beside(session, group, address), group)
    calibration = calibrate(_samples(address, peers, quantity), None if pool is None else pool.parent)
    if calibration is None:
        nothing = Calibration(quantity=quantity, curves={}, relative_error=EXACT_SHARE, evidence=())
        row = _row(own, address, withdrawn.key, group, nothing)
        # A row names what it came of, and this one came of the withdrawal.
        add_calibration(session, replace(row, evidence=(withdrawn.id,)))
        return
    add_calibration(session, _row(own, address, withdrawn.key, group, calibration))
    lesson = Lesson(group=group, curve=withdrawn.key, calibration=calibration, pool=pool, found=peers)
    write_down(session, lesson, newest=withdrawn.id, promise=None)


def _all_found(session: Session, key: str, plans: PlanCache) -> dict[UUID, Found]:
    newest = succeeded_with_key(session, key, limit=MAX_EVIDENCE)
    return {stored.id: one for stored in newest if (one := found_in(stored, plans)) is not None}


def _samples(address: str, peers: dict[UUID, Found], quantity: Quantity) -> tuple[Evidence, ...]:
    own = (sample for one in peers.values() for sample in one.evidence if sample.quantity is quantity)
    return (*shipped_evidence(address, quantity), *own)


def _learn(
    session: Session, job_id: UUID, own: Found, peers: dict[UUID, Found], quantity: Quantity, *, curve: str
) -> UUID | None:
    """Store what the measurements of one key teach about one quantity."""
    address, group = own.environment.place.address(curve), group_of(own, quantity)
    every = _samples(address, peers, quantity)
    if str(job_id) not in {sample.measurement for sample in every}:
        return None
    pools = _pools_beside(session, group, address)
    pool = parent_of(pools, group)
    calibration = calibrate(every, None if pool is None else pool.parent)
    if calibration is None or str(job_id) not in calibration.evidence:
        return None
    promise = promise_of(session, curve, quantity)
    calibration_id = add_calibration(session, _row(own, address, curve, group, calibration))
    write_down(
        session,
        Lesson(group=group, curve=curve, calibration=calibration, pool=pool, found=peers),
        newest=job_id,
        promise=promise,
    )
    return calibration_id


def _pools_beside(session: Session, group: Group, address: str) -> Pools:
    """Return what all other keys of a kind have in common."""
    stored = calibrations_like(session, quantity=group.quantity.value, kind=group.kind, environment=group.environment)
    members = {member.key: member for member in shipped_members() if member.group.above == group.above}
    members |= {member.key: member for row in stored if (member := member_of(row)) is not None}
    return pools_of([member for member in members.values() if member.key != address])


def _row(own: Found, address: str, curve: str, group: Group, calibration: Calibration) -> NewCalibration:
    request = own.answered.request
    return NewCalibration(
        key=address,
        quantity=group.quantity.value,
        scope={
            **calibration_scope(own.answered.architecture, request.task.workload, request.layout),
            "environment": group.environment,
            "gpu": own.environment.gpu,
        },
        correction=to_document(calibration),
        evidence=tuple(UUID(measurement) for measurement in calibration.evidence),
        curve=curve,
        kind=group.kind,
        family=group.family or "",
        environment=group.environment,
    )
