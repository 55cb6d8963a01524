"""From a decoded request to a question that the search can answer; apart, because a fit needs none of the search."""

from msgspec import Struct, UnsetType

from service.api.questions import ResolvedModel, read_device
from service.api.reading import read_layout, read_workload
from service.api.schemas.fields import given, optional
from service.api.schemas.fit import GpuReference
from service.api.schemas.how_many import Constraints, HowManyRequest
from service.catalog.gpus import entries_named
from service.estimator.device import Device
from service.planner.space import DEFAULT_MAX_GPUS, Limits, Question, searched
from service.usecases.how_many import HowManyQuestion


def read_how_many(request: HowManyRequest, model: ResolvedModel) -> HowManyQuestion:
    """Return the question of a how-many request: what it says is kept to the letter, what it leaves open is searched."""
    workload, workload_defaults = read_workload(request.workload)
    layout, layout_defaults = read_layout(request.layout)
    fixed = words_said(request.workload) | words_said(request.layout)
    constraints = Constraints() if isinstance(request.constraints, UnsetType) else request.constraints
    limits = Limits(
        max_gpus=given(constraints.max_gpus, DEFAULT_MAX_GPUS),
        confidence=request.confidence,
        global_batch_size=optional(constraints.global_batch_size),
    )
    question = Question(workload=workload, layout=layout, fixed=fixed, limits=limits)
    varied = searched(question)
    defaults = (*workload_defaults, *layout_defaults)
    return HowManyQuestion(
        architecture=model.architecture,
        question=question,
        devices=read_devices(request.gpu),
        assumptions=tuple(line for line in defaults if line.partition(" = ")[0].rpartition(".")[2] not in varied),
    )


def read_devices(reference: GpuReference) -> tuple[Device, ...]:
    """Return every GPU that a request may mean: a family is several, and each has an answer of its own."""
    if isinstance(reference, str) and len(entries := entries_named(reference)) > 1:
        return tuple(entry.device() for entry in entries)
    return (read_device(reference),)


def words_said(request: Struct | UnsetType) -> frozenset[str]:
    """Return the names of the fields that a request has."""
    if isinstance(request, UnsetType):
        return frozenset()
    return frozenset(name for name in request.__struct_fields__ if not isinstance(getattr(request, name), UnsetType))
