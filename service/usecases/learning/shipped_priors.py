"""Measurements that are shipped with the catalogue, as evidence: a fresh installation begins with what they teach."""

from functools import cache
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from service.base.typed import converted
from service.calibration.derive import Calibration, calibrate
from service.calibration.evidence import Evidence, Quantity
from service.calibration.key import calibration_key, kind_of
from service.calibration.pool import Group, Member
from service.catalog.models import load_config, resolve_model
from service.catalog.prior_measurements import PriorMeasurement, list_priors
from service.db.records.measurements import StoredMeasurement, StoredResult
from service.estimator.estimate import PlanCache
from service.estimator.model.families.registry import architecture_from_config
from service.jobs.contract import MeasureRequest, ModelSource, ProbeResult, document_of
from service.jobs.states import Status
from service.usecases.learning.evidence import Found, found_in


def shipped_id(prior: PriorMeasurement) -> UUID:
    """Return the id by which a shipped measurement is named as evidence."""
    return uuid5(NAMESPACE_URL, f"headroom:prior:{prior.id}")


@cache
def shipped_members() -> tuple[Member, ...]:
    """Return what the shipped measurements teach, key by key; asked for again it is there at once."""
    by_address: dict[tuple[str, Group, str | None], list[Evidence]] = {}
    for curve, found in _shipped():
        for sample in found.evidence:
            place = found.environment.place
            by_address.setdefault((place.address(curve), group_of(found, sample.quantity), place.gpu), []).append(sample)
    taught = ((where, calibrate(evidence)) for where, evidence in by_address.items())
    return tuple(
        Member(key=key, group=group, calibration=calibration, gpu=gpu)
        for (key, group, gpu), calibration in taught
        if calibration is not None
    )


@cache
def shipped_evidence(address: str, quantity: Quantity) -> tuple[Evidence, ...]:
    """Return the shipped measurements of one key and quantity."""
    return tuple(
        sample
        for curve, found in _shipped()
        if found.environment.place.address(curve) == address
        for sample in found.evidence
        if sample.quantity is quantity
    )


def shipped_calibration(key: str, quantity: Quantity) -> Calibration | None:
    """Return what the shipped measurements teach about a key."""
    found = (member for member in shipped_members() if member.key == key and member.group.quantity is quantity)
    return next((member.calibration for member in found), None)


def group_of(found: Found, quantity: Quantity) -> Group:
    """Return the keys that a measurement's own key may learn from."""
    request = found.answered.request
    return Group(
        quantity=quantity,
        kind=kind_of(request.task.workload, request.layout, quantity),
        environment=found.environment.name,
        family=found.answered.architecture.family,
    )


@cache
def _shipped() -> tuple[tuple[str, Found], ...]:
    """Return every shipped measurement with the key of its question."""
    plans = PlanCache()
    return tuple(found for prior in list_priors() if (found := as_evidence(prior, plans)) is not None)


def as_evidence(prior: PriorMeasurement, plans: PlanCache) -> tuple[str, Found] | None:
    """Return a shipped measurement beside its answer, with the key of its question; ``None`` where there is no answer."""
    found = found_in(_stored(prior), plans)
    if found is None:
        return None
    request = found.answered.request
    return calibration_key(found.answered.architecture, request.task.workload, request.layout), found


def _stored(prior: PriorMeasurement) -> StoredMeasurement:
    """Return a shipped measurement as the database gives out its own."""
    config = {**load_config(resolve_model(prior.model)), **prior.config}
    source = ModelSource(architecture=architecture_from_config(config).describe(), hf_config=config, name=prior.model)
    request = converted({**prior.request, "model": msgspec.to_builtins(source)}, MeasureRequest)
    result = msgspec.to_builtins(converted(prior.result, ProbeResult))
    return StoredMeasurement(
        id=shipped_id(prior),
        status=Status.SUCCEEDED,
        attempt=1,
        max_attempts=1,
        device=request.device.value,
        gpu=request.gpu,
        model_name=prior.model,
        model_revision=None,
        request=document_of(request),
        key="",
        priority=0,
        cancel_requested=False,
        progress=1.0,
        phase="done",
        worker=None,
        error=None,
        last_event=0,
        created_at=prior.date,
        started_at=None,
        finished_at=prior.date,
        deadline_at=prior.date,
        result=_result(result),
    )


def _result(document: dict[str, object]) -> StoredResult:
    names = set(StoredResult.__dataclass_fields__) - {"attempt", "prediction", "calibration_id"}
    kept = {name: value for name, value in document.items() if name in names}
    return converted({**kept, "attempt": 1, "prediction": None, "calibration_id": None}, StoredResult)
