"""Learning from measurements: new calibrations of answers."""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from sqlalchemy.orm import Session

from service.calibration.derive import Calibration, calibrate
from service.calibration.document import to_document
from service.calibration.evidence import EXACT_SHARE, Evidence, Quantity
from service.calibration.key import describe_calibration_key
from service.calibration.pool import Group, Pools, build_pools, find_pool
from service.db.queries.calibrations import add_calibration, list_similar_calibrations, lock_key
from service.db.queries.measurements import list_succeeded_with_key
from service.db.queries.residuals import forget_residuals
from service.db.records.measurements import StoredMeasurement
from service.db.records.stored import NewCalibration
from service.estimator.cache import PlanCache
from service.usecases.learning.device_readings import learn_device_readings
from service.usecases.learning.evidence import EvidenceSet, build_evidence_set
from service.usecases.learning.residuals import (
    KeyUpdate,
    read_member,
    read_previous_calibration,
    record_residuals,
)
from service.usecases.learning.shipped_priors import (
    load_shipped_evidence,
    load_shipped_members,
    make_group,
)

MAX_EVIDENCE = 50
"""Newest measurements of one key that count."""


def learn(session: Session, job_id: UUID, *, key: str) -> UUID | None:
    """Store the calibrations of all measurements of ``key`` together.

    Return the id of the first, ``None`` when the measurement of ``job_id`` may teach nothing.

    It must have been stored in this transaction; others that learn about the same key wait until it
    is over. Measurements of another environment stay under the key that they have there. What was
    measured in a named cluster is learnt of its GPUs as well, beside no other cluster's.
    """
    lock_key(session, key)
    plans = PlanCache()
    evidence_sets = _load_evidence_sets(session, key, plans)
    current = evidence_sets.get(job_id)
    if current is None:
        return None
    calibration_id = _learn_in_place(
        session, job_id, current, _list_peers(current, evidence_sets), curve=key
    )
    if current.cluster:
        peers = _load_cluster(session, key, current, evidence_sets, plans)
        in_cluster = _learn_in_place(session, job_id, current.place_in_cluster(), peers, curve=key)
        # What contradicts other clusters' runs may teach of its own cluster alone.
        return calibration_id or in_cluster
    return calibration_id


def unlearn(session: Session, withdrawn: StoredMeasurement) -> None:
    """Store a key's calibrations without a withdrawn measurement.

    It was withdrawn in this transaction. An empty calibration is stored where nothing is left.

    What other keys took from it through their family they keep until something new is measured of
    them.
    """
    lock_key(session, withdrawn.key)
    forget_residuals(session, withdrawn.id)
    plans = PlanCache()
    current = build_evidence_set(withdrawn, plans)
    if current is None:
        return
    evidence_sets = _load_evidence_sets(session, withdrawn.key, plans)
    _unlearn_in_place(session, withdrawn, current, _list_peers(current, evidence_sets))
    if current.cluster:
        peers = _load_cluster(session, withdrawn.key, current, evidence_sets, plans)
        _unlearn_in_place(session, withdrawn, current.place_in_cluster(), peers)


def _learn_in_place(
    session: Session,
    job_id: UUID,
    current: EvidenceSet,
    peers: dict[UUID, EvidenceSet],
    *,
    curve: str,
) -> UUID | None:
    """Store a key's calibrations in one environment; return the first id."""
    calibration_ids = [
        _learn_quantity(session, job_id, current, peers, quantity, curve=curve)
        for quantity in Quantity
    ]
    calibration_ids.append(
        learn_device_readings(session, current, peers, curve=curve)
        if current.device_reading is not None
        else None,
    )
    return next(
        (calibration_id for calibration_id in calibration_ids if calibration_id is not None), None
    )


def _unlearn_in_place(
    session: Session,
    withdrawn: StoredMeasurement,
    current: EvidenceSet,
    peers: dict[UUID, EvidenceSet],
) -> None:
    for quantity in dict.fromkeys(sample.quantity for sample in current.evidence):
        _relearn(session, withdrawn, current, peers, quantity)
    if current.device_reading is not None:
        learn_device_readings(session, current, peers, curve=withdrawn.key)


def _list_peers(
    current: EvidenceSet, evidence_sets: Mapping[UUID, EvidenceSet]
) -> dict[UUID, EvidenceSet]:
    return {
        name: peer
        for name, peer in evidence_sets.items()
        if peer.environment == current.environment
    }


def _load_cluster(
    session: Session,
    key: str,
    current: EvidenceSet,
    loaded: Mapping[UUID, EvidenceSet],
    plans: PlanCache,
) -> dict[UUID, EvidenceSet]:
    """Return the measurements of a key in a cluster's environment.

    ``loaded`` has all of the key unless these are too many: then others must not crowd them out.
    """
    evidence_sets = (
        _load_evidence_sets(session, key, plans, cluster=current.cluster)
        if len(loaded) >= MAX_EVIDENCE
        else loaded
    )
    return {
        name: peer.place_in_cluster()
        for name, peer in _list_peers(current, evidence_sets).items()
        if peer.cluster == current.cluster
    }


def _relearn(
    session: Session,
    withdrawn: StoredMeasurement,
    current: EvidenceSet,
    peers: dict[UUID, EvidenceSet],
    quantity: Quantity,
) -> None:
    address, group = (
        current.environment.key.build_curve_key(withdrawn.key),
        make_group(current, quantity),
    )
    pool = find_pool(_build_pools_without(session, group, address), group)
    calibration = calibrate(
        _collect_samples(address, peers, quantity), None if pool is None else pool.prior
    )
    if calibration is None:
        empty = Calibration(quantity=quantity, curves={}, relative_error=EXACT_SHARE, evidence=())
        row = _make_row(current, address, withdrawn.key, group, empty)
        # A row names what it came of, and this one came of the withdrawal.
        add_calibration(session, replace(row, evidence=(withdrawn.id,)))
        return
    add_calibration(session, _make_row(current, address, withdrawn.key, group, calibration))
    if current.is_of_cluster:
        return
    update = KeyUpdate(
        group=group, curve=withdrawn.key, calibration=calibration, pool=pool, evidence_sets=peers
    )
    record_residuals(session, update, newest=withdrawn.id, previous=None)


def _load_evidence_sets(
    session: Session, key: str, plans: PlanCache, *, cluster: str | None = None
) -> dict[UUID, EvidenceSet]:
    newest = list_succeeded_with_key(session, key, limit=MAX_EVIDENCE, cluster=cluster)
    return {
        stored.id: evidence_set
        for stored in newest
        if (evidence_set := build_evidence_set(stored, plans)) is not None
    }


def _collect_samples(
    address: str, peers: dict[UUID, EvidenceSet], quantity: Quantity
) -> tuple[Evidence, ...]:
    measured = (
        sample for peer in peers.values() for sample in peer.evidence if sample.quantity is quantity
    )
    return (*load_shipped_evidence(address, quantity), *measured)


def _learn_quantity(
    session: Session,
    job_id: UUID,
    current: EvidenceSet,
    peers: dict[UUID, EvidenceSet],
    quantity: Quantity,
    *,
    curve: str,
) -> UUID | None:
    """Store one key's calibration of one quantity."""
    address, group = current.environment.key.build_curve_key(curve), make_group(current, quantity)
    samples = _collect_samples(address, peers, quantity)
    if str(job_id) not in {sample.measurement for sample in samples}:
        return None
    pools = _build_pools_without(session, group, address)
    pool = find_pool(pools, group)
    calibration = calibrate(samples, None if pool is None else pool.prior)
    if calibration is None or str(job_id) not in calibration.evidence:
        return None
    previous = read_previous_calibration(session, curve, quantity)
    calibration_id = add_calibration(
        session, _make_row(current, address, curve, group, calibration)
    )
    if current.is_of_cluster:
        # Its residual stands beside the answer about any such GPU, once for each measurement.
        return calibration_id
    record_residuals(
        session,
        KeyUpdate(
            group=group, curve=curve, calibration=calibration, pool=pool, evidence_sets=peers
        ),
        newest=job_id,
        previous=previous,
    )
    return calibration_id


def _build_pools_without(session: Session, group: Group, address: str) -> Pools:
    """Return the pools of all other keys of a kind."""
    stored = list_similar_calibrations(
        session, quantity=group.quantity.value, kind=group.kind, environment=group.environment
    )
    members = {
        member.key: member
        for member in load_shipped_members()
        if member.group.all_families == group.all_families
    }
    members |= {member.key: member for row in stored if (member := read_member(row)) is not None}
    return build_pools([member for member in members.values() if member.key != address])


def _make_row(
    current: EvidenceSet, address: str, curve: str, group: Group, calibration: Calibration
) -> NewCalibration:
    request = current.analytic.request
    return NewCalibration(
        key=address,
        quantity=group.quantity.value,
        scope={
            **describe_calibration_key(
                current.analytic.architecture, request.task.workload, request.layout
            ),
            "environment": group.environment,
            "gpu": current.environment.gpu,
        },
        correction=to_document(calibration),
        evidence=tuple(UUID(measurement) for measurement in calibration.evidence),
        curve=curve,
        kind=group.kind,
        family=group.family or "",
        environment=group.environment,
    )
