"""Measurements shipped with the catalogue, as evidence.

A fresh installation begins with what they teach.
"""

from collections.abc import Mapping
from functools import cache
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from service.base.typed import convert
from service.calibration.derive import calibrate
from service.calibration.evidence import Evidence, Quantity
from service.calibration.key import build_calibration_key, get_run_kind
from service.calibration.pool import Group, Member
from service.catalog.models import load_config, resolve_model
from service.catalog.prior_measurements import PriorMeasurement, list_priors
from service.db.records.measurements import StoredMeasurement, StoredResult
from service.estimator.cache import PlanCache
from service.estimator.model.families.registry import architecture_from_config
from service.jobs.contract import MeasureRequest, ModelSource, ProbeResult, make_document
from service.jobs.states import Status
from service.usecases.learning.evidence import EvidenceSet, build_evidence_set


def make_shipped_id(prior: PriorMeasurement) -> UUID:
    """Return the id that names a shipped measurement as evidence."""
    return uuid5(NAMESPACE_URL, f"headroom:prior:{prior.id}")


@cache
def load_shipped_members() -> tuple[Member, ...]:
    """Return the calibrations of shipped measurements, key by key.

    They are cached after the first call.
    """
    by_address: dict[tuple[str, Group, str | None], list[Evidence]] = {}
    for curve, evidence_set in _load_shipped():
        for sample in evidence_set.evidence:
            place = evidence_set.environment.key
            by_address.setdefault(
                (
                    place.build_curve_key(curve),
                    make_group(evidence_set, sample.quantity),
                    place.gpu,
                ),
                [],
            ).append(sample)
    calibrations = ((address, calibrate(evidence)) for address, evidence in by_address.items())
    return tuple(
        Member(key=key, group=group, calibration=calibration, gpu=gpu)
        for (key, group, gpu), calibration in calibrations
        if calibration is not None
    )


def load_shipped_evidence(address: str, quantity: Quantity) -> tuple[Evidence, ...]:
    """Return the shipped measurements of one key and quantity."""
    return _index_shipped().get((address, quantity), ())


@cache
def _index_shipped() -> Mapping[tuple[str, Quantity], tuple[Evidence, ...]]:
    index: dict[tuple[str, Quantity], tuple[Evidence, ...]] = {}
    for curve, evidence_set in _load_shipped():
        address = evidence_set.environment.key.build_curve_key(curve)
        for sample in evidence_set.evidence:
            key = (address, sample.quantity)
            index[key] = (*index.get(key, ()), sample)
    return index


def make_group(evidence_set: EvidenceSet, quantity: Quantity) -> Group:
    """Return the group of keys that a measurement's key learns from."""
    request = evidence_set.analytic.request
    return Group(
        quantity=quantity,
        kind=get_run_kind(request.task.workload, request.layout, quantity),
        environment=evidence_set.environment.name,
        family=evidence_set.analytic.architecture.family,
    )


@cache
def _load_shipped() -> tuple[tuple[str, EvidenceSet], ...]:
    """Return every shipped measurement with the key of its question."""
    plans = PlanCache()
    return tuple(pair for prior in list_priors() if (pair := as_evidence(prior, plans)) is not None)


def as_evidence(prior: PriorMeasurement, plans: PlanCache) -> tuple[str, EvidenceSet] | None:
    """Return a shipped measurement as evidence, with its key.

    ``None`` where the estimator has no answer.
    """
    evidence_set = build_evidence_set(_to_stored_measurement(prior), plans)
    if evidence_set is None:
        return None
    request = evidence_set.analytic.request
    return build_calibration_key(
        evidence_set.analytic.architecture, request.task.workload, request.layout
    ), evidence_set


def _to_stored_measurement(prior: PriorMeasurement) -> StoredMeasurement:
    """Return a shipped measurement as a stored one."""
    config = {**load_config(resolve_model(prior.model)), **prior.config}
    source = ModelSource(
        architecture=architecture_from_config(config).describe(), hf_config=config, name=prior.model
    )
    request = convert({**prior.request, "model": msgspec.to_builtins(source)}, MeasureRequest)
    result = msgspec.to_builtins(convert(prior.result, ProbeResult))
    return StoredMeasurement(
        id=make_shipped_id(prior),
        status=Status.SUCCEEDED,
        attempt=1,
        max_attempts=1,
        device=request.device.value,
        gpu=request.gpu,
        model_name=prior.model,
        model_revision=None,
        request=make_document(request),
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
        result=_to_stored_result(result),
    )


def _to_stored_result(document: dict[str, object]) -> StoredResult:
    names = set(StoredResult.__dataclass_fields__) - {"attempt", "prediction", "calibration_id"}
    fields = {name: value for name, value in document.items() if name in names}
    return convert(
        {**fields, "attempt": 1, "prediction": None, "calibration_id": None}, StoredResult
    )
