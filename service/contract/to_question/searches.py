"""Decoded requests as questions of the search, and names of found jobs.

Apart from fit questions, because a fit needs none of the search.
"""

from dataclasses import dataclass, replace

import msgspec
from msgspec import UnsetType, structs

from service.base.errors import InvalidRequestError, ServiceError
from service.catalog.gpus import find_gpus, resolve_device
from service.contract.schemas.fields import get_or_default, get_or_none
from service.contract.schemas.fit import GpuReference, ModelReference
from service.contract.schemas.format_options import FormatOptionsRequest
from service.contract.schemas.formats.renderings import RenderingRequest
from service.contract.schemas.how_many import Constraints, HowManyRequest
from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.plans import PlanRequest
from service.contract.schemas.serving import ServeRequest
from service.contract.to_question.defaults import list_set_fields
from service.contract.to_question.fits import read_device, restate_defaults
from service.contract.to_question.layouts import read_layout
from service.contract.to_question.models import ResolvedModel
from service.contract.to_question.workloads import read_workload
from service.estimator.model.quantization.loading import adopt_cache_format, as_loaded
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.units import format_bytes
from service.estimator.values.workload import ServeWorkload, Workload
from service.formats.renderings.job import NO_OPTIONS, FormatOptions, JobNames
from service.planner.fit.confidence import list_confidence_notes
from service.planner.search.search_space import (
    DEFAULT_MAX_GPUS,
    OFFLOADING,
    QUANTIZING,
    TIME_LIMITS,
    Limits,
    Question,
)
from service.planner.search.splits import list_varied_fields
from service.usecases.questions.how_many import HowManyQuestion

_LIMITS = ("global_batch_size", "max_nodes", "max_cost_per_hour", "min_num_sequences", *TIME_LIMITS)

CLIENT_FIELDS = frozenset({"framework"})
"""Words that say whose code runs.

Where they are left out they are those of a fit: another client is another question.
"""


def list_search_notes(workload: msgspec.Struct, searched: frozenset[str]) -> tuple[str, ...]:
    """Return a line that names the workload's fields that a search decides."""
    names = ", ".join(sorted(searched & set(workload.__struct_fields__)))
    return (f"searched, and named in the answer: {names}",) if names else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuestion:
    """Search question, with the defaults that stay fixed."""

    question: Question
    assumptions: tuple[str, ...]


def read_how_many(request: HowManyRequest, model: ResolvedModel) -> HowManyQuestion:
    """Return the question of a how-many request.

    What it says is kept to the letter, what it leaves open is searched.
    """
    _check_formats(request)
    search = adopt_cache(read_search(request), model)
    return HowManyQuestion(
        architecture=as_loaded(model.architecture, search.question.workload),
        question=search.question,
        devices=read_devices(request.gpu),
        names=read_job_names(request, model),
        assumptions=(*model.notes, *search.assumptions),
        formats=tuple(get_or_none(request.format) or ()),
        cluster=get_or_default(request.cluster, ""),
    )


def _check_formats(request: HowManyRequest) -> None:
    """Refuse what is of a rendered job where none is asked for."""
    if not isinstance(request.format, UnsetType):
        return
    for name in ("container_image", "format_options"):
        if not isinstance(getattr(request, name), UnsetType):
            message = f"{name} is of a rendered job: say format as well"
            raise InvalidRequestError(message, errors=[{"field": name, "message": message}])


def adopt_cache(search: SearchQuestion, model: ResolvedModel) -> SearchQuestion:
    """Return a search with the cache of the model's checkpoint."""
    question = search.question
    workload = adopt_cache_format(model.architecture, question.workload)
    if workload is question.workload or "kv_cache_dtype" in question.fixed:
        return search
    return replace(
        search,
        question=replace(question, workload=workload),
        assumptions=tuple(restate_defaults(search.assumptions, workload)),
    )


def read_search(request: HowManyRequest | PlanRequest) -> SearchQuestion:
    """Return the search question of a request."""
    workload, workload_defaults = read_workload(request.workload)
    layout, layout_defaults = read_layout(
        _fill_expert_ranks(request), serves=isinstance(request.workload, ServeRequest)
    )
    constraints = (
        Constraints() if isinstance(request.constraints, UnsetType) else request.constraints
    )
    fixed = list_set_fields(request.workload) | list_set_fields(request.layout)
    if isinstance(request, HowManyRequest) and isinstance(constraints.frameworks, UnsetType):
        fixed |= CLIENT_FIELDS
    allow, unused = _split_permissions(constraints, workload)
    question = Question(
        workload=workload,
        layout=_set_node_size(layout, constraints, is_fixed="gpus_per_node" in fixed),
        fixed=fixed,
        limits=_build_limits(constraints, request.confidence),
        frameworks=None
        if isinstance(constraints.frameworks, UnsetType)
        else frozenset(constraints.frameworks),
        allow=allow,
    )
    varied = list_varied_fields(question)
    if not isinstance(constraints.gpus_per_node, UnsetType) or _has_cluster(request):
        varied |= {"gpus_per_node"}
    defaults = (*workload_defaults, *layout_defaults)
    lines = tuple(
        line for line in defaults if line.partition(" = ")[0].rpartition(".")[2] not in varied
    )
    return SearchQuestion(
        question=question,
        assumptions=(*lines, *list_confidence_notes(request.confidence, workload), *unused),
    )


def _has_cluster(request: HowManyRequest | PlanRequest) -> bool:
    """Return whether the request names a stored cluster.

    Then nodes have as many GPUs as its inventory says, and not as many as is usual.
    """
    return isinstance(request, PlanRequest) and not isinstance(request.cluster, UnsetType)


def _split_permissions(
    constraints: Constraints, workload: Workload
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Split permissions into applicable ones and notes on the others.

    A permission asks for nothing: one list of them serves questions of both tasks.
    """
    allowed = frozenset(get_or_default(constraints.allow, []))
    unused, of = (
        (OFFLOADING, "training") if isinstance(workload, ServeWorkload) else (QUANTIZING, "serving")
    )
    return allowed - {unused}, (
        f"constraints.allow: {unused} is a matter of {of} and has no use here",
    ) if unused in allowed else ()


def _fill_expert_ranks(request: HowManyRequest | PlanRequest) -> LayoutRequest | UnsetType:
    """Return the layout with the ranks its experts need.

    Only where the request leaves their number to the search.
    """
    layout = request.layout
    if isinstance(layout, UnsetType) or isinstance(layout.expert_parallel, UnsetType):
        return layout
    if not isinstance(request.workload, ServeRequest):
        open_ranks = isinstance(layout.data_parallel, UnsetType)
        return (
            structs.replace(layout, data_parallel=layout.expert_parallel) if open_ranks else layout
        )
    replicas = get_or_default(layout.data_parallel, 1)
    if isinstance(layout.tensor_parallel, UnsetType) and layout.expert_parallel % replicas == 0:
        return structs.replace(layout, tensor_parallel=layout.expert_parallel // replicas)
    return layout


def _build_limits(constraints: Constraints, confidence: float | None) -> Limits:
    bounds = {name: get_or_none(getattr(constraints, name)) for name in _LIMITS}
    return Limits(
        max_gpus=get_or_default(constraints.max_gpus, DEFAULT_MAX_GPUS),
        confidence=confidence,
        **bounds,
    )


def _set_node_size(layout: Layout, constraints: Constraints, *, is_fixed: bool) -> Layout:
    """Return the layout with the node size of the constraints."""
    if isinstance(constraints.gpus_per_node, UnsetType):
        return layout
    if is_fixed and layout.gpus_per_node != constraints.gpus_per_node:
        message = (
            f"layout.gpus_per_node is {layout.gpus_per_node}, constraints.gpus_per_node "
            f"{constraints.gpus_per_node}; say one"
        )
        raise InvalidInputError(message, field="constraints.gpus_per_node")
    return replace(layout, gpus_per_node=constraints.gpus_per_node)


def read_devices(reference: GpuReference) -> tuple[Device, ...]:
    """Return every GPU that a reference means.

    A family is several, and each has an answer of its own.
    """
    if isinstance(reference, str) and len(entries := find_gpus(reference)) > 1:
        return tuple(entry.to_device() for entry in entries)
    return (read_device(reference),)


def is_same_gpu(reference: GpuReference, name: str) -> bool:
    """Return whether a reference may mean a GPU of the catalogue.

    By its memory it does from what a process can allocate up to NVML's total. One that is known to
    nobody means none.
    """
    try:
        device, devices = resolve_device(name), read_devices(reference)
    except (ServiceError, EstimatorError):
        return False
    if isinstance(reference, str):
        return any(entry.name == device.name for entry in devices)
    return device.usable_bytes <= devices[0].capacity_bytes <= device.capacity_bytes


def show_gpu(gpu: GpuReference) -> str:
    """Return a request's GPU by its name, else by its memory."""
    if isinstance(gpu, str):
        return gpu
    memory = gpu.memory_bytes
    return f"a GPU of {format_bytes(memory) if isinstance(memory, int) else memory}"


def read_job_names(
    request: HowManyRequest | PlanRequest | RenderingRequest, model: ResolvedModel
) -> JobNames:
    """Return what a request calls a job and its parts."""
    return JobNames(
        model_name=_name_objects(request.model, model),
        checkpoints=model.checkpoints,
        image=get_or_none(request.container_image),
        options=_read_options(request.format_options),
    )


def _name_objects(reference: ModelReference, model: ResolvedModel) -> str:
    return (
        reference.rpartition("/")[2]
        if isinstance(reference, str) and not model.notes
        else model.name or model.architecture.family
    )


def _read_options(request: FormatOptionsRequest | UnsetType) -> FormatOptions:
    if isinstance(request, UnsetType):
        return NO_OPTIONS
    return FormatOptions(
        queue=get_or_none(request.queue),
        topology=get_or_none(request.topology),
        gate=request.gate,
        namespace=get_or_none(request.namespace),
        name=get_or_none(request.name),
    )
