"""Answers without a server: catalogue, estimator and planner in this process, by the code that HTTP goes through."""

from typing import Any, TypeVar

from msgspec import UnsetType, ValidationError, convert, to_builtins

from service.api.answers import fit_answer
from service.api.hints import explain
from service.api.reading import read_layout, read_workload
from service.api.schemas.fit import FitRequest, GpuByMemory, GpuReference, InlineModel, ModelReference
from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.errors import InvalidRequestError
from service.estimator.architecture import Architecture
from service.estimator.device import Device
from service.estimator.estimate import PlanCache
from service.estimator.families.registry import architecture_from_config
from service.formats.quantities import parse_bytes
from service.usecases.fit import FitQuestion, answer_fit

T = TypeVar("T")
Document = dict[str, Any]


def fit(document: Document, _server: None) -> Document:
    """Return what ``POST /v1/fit`` would answer."""
    question = fit_question(decode(document, FitRequest))
    report = answer_fit(question, plans=PlanCache())
    answer: Document = to_builtins(fit_answer(report, assumptions=question.assumptions))
    return answer


def decode(document: object, kind: type[T]) -> T:
    """Return a request that the contract would take, or refuse it in the contract's words."""
    try:
        return convert(document, kind, strict=True)
    except ValidationError as error:
        raise explain(error, kind, document) from None


def fit_question(request: FitRequest) -> FitQuestion:
    """Return the question of a request, with a line for each default."""
    workload, workload_defaults = read_workload(request.workload)
    layout, layout_defaults = read_layout(request.layout)
    return FitQuestion(
        architecture=read_model(request.model),
        workload=workload,
        layout=layout,
        device=read_device(request.gpu),
        assumptions=(*workload_defaults, *layout_defaults),
    )


def read_model(reference: ModelReference) -> Architecture:
    """Return a catalogue model, or the one that a config.json describes."""
    if isinstance(reference, InlineModel):
        if isinstance(reference.hf_config, UnsetType):
            message = "without a server a model is a name of the catalogue or a config.json"
            raise InvalidRequestError(message)
        return architecture_from_config(reference.hf_config)
    return load_architecture(resolve_model(reference))


def read_device(reference: GpuReference) -> Device:
    """Return a GPU of the catalogue, or one of which only the memory is known."""
    if isinstance(reference, GpuByMemory):
        num_bytes = parse_bytes(reference.memory_bytes, field="gpu.memory_bytes")
        return Device(name="custom", vendor="unknown", capacity_bytes=num_bytes, usable_bytes=num_bytes)
    return resolve_gpu(reference).device()
