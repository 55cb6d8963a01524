"""Names in requests resolved to stored resources.

What a request means in this process, with its database behind it.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from litestar.types import Scope
from msgspec import Struct

from service.api.http.dependencies import Dependencies
from service.api.http.etags import read_header
from service.api.http.names import is_storable_name
from service.base.errors import InvalidRequestError, UnavailableError
from service.calibration.key import build_calibration_key
from service.catalog.gpus import resolve_device
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.fit import ModelReference
from service.contract.schemas.measurements import MeasurementRequest
from service.contract.schemas.models import ModelSource as StoredSource
from service.contract.schemas.serving import ServeRequest
from service.contract.to_question.drafts import expand_draft
from service.contract.to_question.heads import put_head_in_source
from service.contract.to_question.hub import FetchModel, expand_source, read_hub
from service.contract.to_question.layouts import read_layout
from service.contract.to_question.models import (
    ResolvedModel,
    prefix_error_field,
    read_files,
    read_spelled,
    require_one,
    resolve_reference,
)
from service.contract.to_question.workloads import read_workload
from service.estimator.values.errors import UnknownModelTypeError
from service.jobs.contract import MeasureRequest, ModelSource, make_task
from service.usecases.hub.values import HubModel, HubReference
from service.usecases.jobs.measurable import check_plannable
from service.usecases.jobs.waiting import choose_probe_device
from service.usecases.recordings.documents import load_recording
from service.usecases.recordings.queue import RecordingQueue
from service.usecases.recordings.recorder import StaticPart
from service.usecases.stored import ModelContent
from service.usecases.stored_specs.model_sources import make_content
from service.usecases.stored_specs.recorded import find_config_recording, make_waiting_content
from service.usecases.stored_specs.spec_cache import NamedModel, SpecCache
from service.usecases.stored_specs.waiting import make_waiting_error

R = TypeVar("R", bound=Struct)
_SOURCES = ("hf_config", "architecture", "gguf", "recording", "hub")
_TOKEN = re.compile(r"[!-~]{1,512}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementQuestion:
    """Measurement to be stored, with its calibration key."""

    request: MeasureRequest
    key: str


def resolve_model(
    deps: Dependencies, reference: ModelReference, scope: Scope | None = None
) -> ResolvedModel:
    """Return the model that a request names or brings along.

    ``scope`` is the request's, whose token a hub is asked with.
    """
    try:
        return resolve_known_model(deps, reference, scope)
    except UnknownModelTypeError:
        recorded = find_recorded_model(deps, reference)
        if recorded is None:
            raise
        return recorded


def resolve_known_model(
    deps: Dependencies, reference: ModelReference, scope: Scope | None
) -> ResolvedModel:
    """Return a model, where this version has a module for its type.

    Raises UnknownModelTypeError for any other config that is brought along.
    """
    return resolve_reference(
        reference, lambda name: _find_model(deps.specs, name), _make_fetch(deps, scope)
    )


def resolve_cached_name(deps: Dependencies, name: str, scope: Scope) -> ResolvedModel | None:
    """Return the model of a name that is known without the database."""
    spec = deps.specs.get_cached(name)
    if spec is None:
        return None
    _read_token(scope)
    return _show(spec)


def find_recorded_model(deps: Dependencies, reference: ModelReference) -> ResolvedModel | None:
    """Return the model of a config that was recorded here.

    None for one that nobody stored; it asks the database. Raises ModelRecordingError while it is
    being recorded.
    """
    if isinstance(reference, str) or get_or_none(reference.head) is not None:
        return None
    config = get_or_none(reference.hf_config)
    if config is None:
        return None
    try:
        recorded = find_config_recording(deps.sessions, config)
    except UnavailableError:
        # A config that is brought along needs no database to be refused.
        return None
    if recorded is None:
        return None
    if recorded.recording is None:
        raise make_waiting_error(recorded, name="this config", field="model.hf_config")
    return ResolvedModel(
        architecture=load_recording(recorded.recording.digest, recorded.recording.packed),
        hf_config=config,
        notes=("model read from its recording on this server",),
    )


def bring_draft(deps: Dependencies, request: R, scope: Scope | None) -> R:
    """Return a request whose draft model is no longer on a hub."""
    return expand_draft(request, _make_fetch(deps, scope))


def _make_fetch(deps: Dependencies, scope: Scope | None) -> FetchModel:
    """Return the reader of a hub, for the caller of a request."""
    token = _read_token(scope)

    def fetch(reference: HubReference) -> HubModel:
        return deps.hub.fetch(replace(reference, token=token))

    return fetch


def _read_token(scope: Scope | None) -> str | None:
    """Return the token of a request for the hub.

    No refusal repeats it.
    """
    token = None if scope is None else read_header(scope, b"hub-token")
    if token is not None and not _TOKEN.fullmatch(token):
        message = "Hub-Token must be 1 to 512 visible ASCII characters without spaces"
        raise InvalidRequestError(message, errors=[{"field": "Hub-Token", "message": message}])
    return token


def _find_model(specs: SpecCache, name: str) -> ResolvedModel:
    spec = specs.load(name) if is_storable_name(name) else specs.get_cached(name)
    if spec is None:
        return read_spelled(name, lambda model: _show(specs.require(model)))
    return _show(spec)


def _show(spec: NamedModel) -> ResolvedModel:
    return ResolvedModel(
        architecture=spec.architecture,
        name=spec.name,
        revision=spec.revision,
        hf_config=spec.hf_config,
        checkpoints=spec.checkpoints,
        version=spec.version,
    )


def read_measurement(
    deps: Dependencies, request: MeasurementRequest, scope: Scope
) -> MeasurementQuestion:
    """Return the resolved question of a measurement request.

    A later change of the model does not reach the job.
    """
    model = resolve_model(deps, request.model, scope)
    request = bring_draft(deps, request, scope)
    workload, _ = read_workload(request.workload)
    layout, _ = read_layout(request.layout, serves=isinstance(request.workload, ServeRequest))
    check_plannable(model.architecture, workload, layout)
    named_gpu, device = get_or_none(request.gpu), get_or_none(request.device)
    gpu = None if named_gpu is None else resolve_device(named_gpu).name
    source = ModelSource(
        architecture=model.architecture.describe(),
        hf_config=None if model.hf_config is None else dict(model.hf_config),
        name=None if model.has_other_head else model.name,
        revision=None if model.has_other_head else model.revision,
    )
    return MeasurementQuestion(
        request=MeasureRequest(
            model=source,
            task=make_task(workload),
            layout=layout,
            device=device
            or choose_probe_device(deps.sessions, gpu, gone_after_s=deps.settings.lease_s),
            gpu=gpu,
            full_depth=request.full_depth,
            rank=request.rank,
            priority=request.priority,
            artifacts=request.artifacts,
        ),
        key=build_calibration_key(model.architecture, workload, layout),
    )


def read_content(deps: Dependencies, sent: StoredSource, scope: Scope) -> ModelContent:
    """Return the model content that is to be stored."""
    require_one(sent, _SOURCES, "source")
    on_hub = read_hub(sent, _make_fetch(deps, scope), "source")
    hub = None
    if on_hub is not None:
        sent = expand_source(sent, on_hub)
        hub = {"id": on_hub.repository, "commit": on_hub.commit, "file": on_hub.file}
    sources = require_one(sent, _SOURCES, "source")
    checkpoint = read_files(sent, "source")
    with prefix_error_field("source"):
        source = put_head_in_source(sources, sent.head, sent.num_labels)
    with prefix_error_field(f"source.{next(iter(source))}"):
        try:
            return make_content(source, checkpoint=checkpoint, hub=hub)
        except UnknownModelTypeError:
            if "hf_config" not in source:
                raise
            return make_waiting_content(source["hf_config"], checkpoint=checkpoint, hub=hub)


def count_waiting_weights(deps: Dependencies, content: ModelContent) -> StaticPart | None:
    """Return the weights of a model that waits for its recording.

    None where only a worker counts them. Raises InvalidConfigError for what transformers does not
    know or cannot build.
    """
    if content.config_digest is None:
        return None
    config: Any = content.source["hf_config"]
    recorded = find_config_recording(deps.sessions, config)
    if recorded is not None and recorded.weights is not None:
        return None
    with prefix_error_field("source.hf_config"):
        return deps.count_weights(config)


def list_recording_options(deps: Dependencies, content: ModelContent) -> dict[str, Any]:
    """Return what storing a model needs that may have to be recorded."""
    return {
        "queue": RecordingQueue(settings=deps.settings, notify=deps.notify),
        "weights": count_waiting_weights(deps, content),
    }
