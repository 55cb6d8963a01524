"""From a decoded request to a question that the search can answer; apart, because a fit needs none of the search."""

from dataclasses import dataclass, replace

from msgspec import UnsetType, structs

from service.catalog.gpus import entries_named
from service.contract.schemas.fields import given, optional
from service.contract.schemas.fit import GpuReference
from service.contract.schemas.how_many import Constraints, HowManyRequest
from service.contract.schemas.plans import PlanRequest
from service.contract.schemas.workload import LayoutRequest, ServeRequest
from service.contract.to_question.fits import ResolvedModel, read_device, words_said
from service.contract.to_question.workloads import read_layout, read_workload
from service.estimator.model.quantization.loading import as_loaded
from service.estimator.values.device import Device
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, Workload
from service.planner.fit.confidence import confidence_notes
from service.planner.search.search_space import DEFAULT_MAX_GPUS, OFFLOADING, QUANTIZING, TIMES, Limits, Question
from service.planner.search.splits import varied_words
from service.usecases.questions.how_many import HowManyQuestion

_LIMITS = ("global_batch_size", "max_nodes", "max_cost_per_hour", "min_num_sequences", *TIMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request lets a search vary; ``assumptions`` are the defaults that it does not."""

    question: Question
    assumptions: tuple[str, ...]


def read_how_many(request: HowManyRequest, model: ResolvedModel) -> HowManyQuestion:
    """Return the question of a how-many request: what it says is kept to the letter, what it leaves open is searched."""
    asked = read_asked(request)
    return HowManyQuestion(
        architecture=as_loaded(model.architecture, asked.question.workload),
        question=asked.question,
        devices=read_devices(request.gpu),
        assumptions=asked.assumptions,
    )


def read_asked(request: HowManyRequest | PlanRequest) -> Asked:
    """Return what a search is asked."""
    workload, workload_defaults = read_workload(request.workload)
    layout, layout_defaults = read_layout(_regrouped(request), serves=isinstance(request.workload, ServeRequest))
    constraints = Constraints() if isinstance(request.constraints, UnsetType) else request.constraints
    fixed = words_said(request.workload) | words_said(request.layout)
    allow, unused = _permissions(constraints, workload)
    question = Question(
        workload=workload,
        layout=_in_nodes(layout, constraints, said="gpus_per_node" in fixed),
        fixed=fixed,
        limits=_limits(constraints, request.confidence),
        frameworks=None if isinstance(constraints.frameworks, UnsetType) else frozenset(constraints.frameworks),
        allow=allow,
    )
    varied = varied_words(question)
    if not isinstance(constraints.gpus_per_node, UnsetType) or _names_a_cluster(request):
        varied |= {"gpus_per_node"}
    defaults = (*workload_defaults, *layout_defaults)
    lines = tuple(line for line in defaults if line.partition(" = ")[0].rpartition(".")[2] not in varied)
    return Asked(question=question, assumptions=(*lines, *confidence_notes(request.confidence, workload), *unused))


def _names_a_cluster(request: HowManyRequest | PlanRequest) -> bool:
    """Tell whether nodes have as many GPUs as an inventory says, and not as many as is usual."""
    return isinstance(request, PlanRequest) and not isinstance(request.cluster, UnsetType)


def _permissions(constraints: Constraints, workload: Workload) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return what the task may use of what is allowed, and a line for what it has no use for.

    A permission asks for nothing: one list of them serves questions of both tasks.
    """
    said = frozenset(given(constraints.allow, []))
    useless, of = (OFFLOADING, "training") if isinstance(workload, ServeWorkload) else (QUANTIZING, "serving")
    return said - {useless}, (
        f"constraints.allow: {useless} is a matter of {of} and has no use here",
    ) if useless in said else ()


def _regrouped(request: HowManyRequest | PlanRequest) -> LayoutRequest | UnsetType:
    """Return the layout with as many ranks as its experts are spread over, where it leaves their number to the search."""
    layout = request.layout
    if isinstance(layout, UnsetType) or isinstance(layout.expert_parallel, UnsetType):
        return layout
    if not isinstance(request.workload, ServeRequest):
        open_ranks = isinstance(layout.data_parallel, UnsetType)
        return structs.replace(layout, data_parallel=layout.expert_parallel) if open_ranks else layout
    replicas = given(layout.data_parallel, 1)
    if isinstance(layout.tensor_parallel, UnsetType) and layout.expert_parallel % replicas == 0:
        return structs.replace(layout, tensor_parallel=layout.expert_parallel // replicas)
    return layout


def _limits(constraints: Constraints, confidence: float | None) -> Limits:
    said = {name: optional(getattr(constraints, name)) for name in _LIMITS}
    return Limits(max_gpus=given(constraints.max_gpus, DEFAULT_MAX_GPUS), confidence=confidence, **said)


def _in_nodes(layout: Layout, constraints: Constraints, *, said: bool) -> Layout:
    """Return the layout on nodes of the size that the constraints say."""
    if isinstance(constraints.gpus_per_node, UnsetType):
        return layout
    if said and layout.gpus_per_node != constraints.gpus_per_node:
        message = (
            f"layout.gpus_per_node is {layout.gpus_per_node}, constraints.gpus_per_node {constraints.gpus_per_node}; say one"
        )
        raise InvalidInputError(message, field="constraints.gpus_per_node")
    return replace(layout, gpus_per_node=constraints.gpus_per_node)


def read_devices(reference: GpuReference) -> tuple[Device, ...]:
    """Return every GPU that a request may mean: a family is several, and each has an answer of its own."""
    if isinstance(reference, str) and len(entries := entries_named(reference)) > 1:
        return tuple(entry.device() for entry in entries)
    return (read_device(reference),)
