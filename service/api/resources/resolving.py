"""Names to stored things: what a request means in this process, with its database behind it."""

from dataclasses import dataclass

from service.api.http.dependencies import Parts
from service.base.errors import InvalidRequestError
from service.calibration.key import calibration_key
from service.catalog.gpus import resolve_gpu
from service.contract.schemas.fields import optional
from service.contract.schemas.fit import InlineModel, ModelReference
from service.contract.schemas.measurements import MeasurementRequest
from service.contract.schemas.models import ModelSource as StoredSource
from service.contract.schemas.workload import ServeRequest
from service.contract.to_question.fits import ResolvedModel, fields_under, only_one, read_inline
from service.contract.to_question.workloads import read_layout, read_workload
from service.jobs.contract import MeasureRequest, ModelSource, task_of
from service.usecases.jobs.measurable import check_plannable
from service.usecases.stored import ModelContent
from service.usecases.stored_specs.checkpoints import Checkpoint, of_header, of_index
from service.usecases.stored_specs.model_sources import content_of
from service.usecases.stored_specs.spec_cache import SpecBook


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementQuestion:
    """A measurement to be stored, and the calibration key that it may teach about."""

    request: MeasureRequest
    key: str


def resolve_model(specs: SpecBook, reference: ModelReference) -> ResolvedModel:
    """Return the model that a request names or brings."""
    if isinstance(reference, InlineModel):
        return read_inline(reference)
    found = specs.require(reference)
    return ResolvedModel(
        architecture=found.architecture,
        name=found.name,
        revision=found.revision,
        hf_config=found.hf_config,
        checkpoints=found.checkpoints,
    )


def read_measurement(parts: Parts, request: MeasurementRequest) -> MeasurementQuestion:
    """Return what a measurement request asks for, resolved so that a later change of the model does not reach the job."""
    model = resolve_model(parts.specs, request.model)
    workload, _ = read_workload(request.workload)
    layout, _ = read_layout(request.layout, serves=isinstance(request.workload, ServeRequest))
    check_plannable(model.architecture, workload, layout)
    gpu = optional(request.gpu)
    source = ModelSource(
        architecture=model.architecture.describe(),
        hf_config=None if model.hf_config is None else dict(model.hf_config),
        name=model.name,
        revision=model.revision,
    )
    return MeasurementQuestion(
        request=MeasureRequest(
            model=source,
            task=task_of(workload),
            layout=layout,
            device=request.device,
            gpu=None if gpu is None else resolve_gpu(gpu).name,
            full_depth=request.full_depth,
            rank=request.rank,
            priority=request.priority,
            artifacts=request.artifacts,
        ),
        key=calibration_key(model.architecture, workload, layout),
    )


def read_content(sent: StoredSource) -> ModelContent:
    """Return what is to be stored about a model."""
    source = only_one(sent, ("hf_config", "architecture"), "source")
    checkpoint = _read_files(sent)
    with fields_under(f"source.{next(iter(source))}"):
        return content_of(source, checkpoint=checkpoint)


def _read_files(sent: StoredSource) -> Checkpoint | None:
    """Return what the checkpoint's files hold; they are described once, by an index or by a header."""
    index, header = optional(sent.safetensors_index), optional(sent.safetensors_header)
    if index is not None and header is not None:
        message = "source has a safetensors_index and a safetensors_header; give the one that the checkpoint has"
        raise InvalidRequestError(message, errors=[{"field": "source.safetensors_header", "message": message}])
    if index is not None:
        return of_index(index)
    return None if header is None else of_header(header)
