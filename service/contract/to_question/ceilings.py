"""Decoded ceiling requests as questions of the planner."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
from msgspec import UnsetType

from service.base.errors import InvalidRequestError
from service.base.typed import convert
from service.contract.schemas.ceilings import CeilingRequest
from service.contract.schemas.fields import get_or_default, get_or_none
from service.contract.schemas.fit import ModelReference
from service.contract.schemas.serving import ServeRequest
from service.contract.schemas.workload import WorkloadRequest
from service.contract.to_question.defaults import list_set_fields
from service.contract.to_question.fits import read_device, restate_defaults
from service.contract.to_question.layouts import read_layout
from service.contract.to_question.models import ResolvedModel
from service.contract.to_question.searches import CLIENT_FIELDS, list_search_notes
from service.contract.to_question.validation_errors import explain
from service.contract.to_question.workloads import read_workload
from service.estimator.model.quantization.loading import adopt_cache_format, as_loaded
from service.estimator.values.batches import SequencePacking
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.workload import TrainWorkload, Workload
from service.planner.fit.confidence import list_confidence_notes
from service.planner.fit.hardware import select_format
from service.planner.plans.ceiling_values import Maximized
from service.planner.search.search_space import Limits, Question
from service.planner.search.splits import list_varied_fields
from service.usecases.questions.ceilings import CeilingQuestion

_SMALLEST = {
    Maximized.MICRO_BATCH_SIZE: {"micro_batch_size": 1},
    Maximized.GLOBAL_BATCH_SIZE: {"micro_batch_size": 1},
    Maximized.SEQUENCE_LENGTH: {"sequence_length": 1, "prompt_tokens": 1},
    Maximized.NUM_SEQUENCES: {"num_sequences": 1},
    Maximized.MAX_MODEL_LEN: {},
    Maximized.LORA_RANK: {},
    Maximized.NUM_IMAGES: {},
    Maximized.NUM_PARAMETERS: {},
}
_SCALED_NOTE = (
    "model = llamas scaled to every size: num_parameters is what is asked, and the model that was "
    "named has one"
)
_ACCUMULATION_NOTE = (
    "accumulating takes no more memory: any multiple of this batch fits with more "
    "gradient_accumulation_steps"
)


def read_ceiling(
    request: CeilingRequest, resolve: Callable[[ModelReference], ResolvedModel]
) -> CeilingQuestion:
    """Return the question of a ceiling request.

    The field that is maximised starts at its smallest value, whatever the request says of it.
    """
    maximized = request.maximize
    set_fields = list_set_fields(request.workload) | list_set_fields(request.layout)
    workload, workload_defaults = read_workload(_complete_workload(request))
    layout, layout_defaults = read_layout(
        request.layout, serves=isinstance(request.workload, ServeRequest)
    )
    starts = frozenset(_SMALLEST[maximized])
    num_gpus = get_or_none(request.num_gpus)
    fixed = (
        set_fields
        | starts
        | CLIENT_FIELDS
        | (frozenset({"data_parallel"}) if num_gpus is None else frozenset())
    )
    notes = list_confidence_notes(request.confidence, workload)
    if maximized is Maximized.SEQUENCE_LENGTH:
        _require_free_length(workload)
    if maximized is Maximized.GLOBAL_BATCH_SIZE:
        _require_open(set_fields, "micro_batch_size")
        fixed, notes = fixed | {"gradient_accumulation_steps"}, (*notes, _ACCUMULATION_NOTE)
    limits = Limits(max_gpus=num_gpus or layout.num_gpus, confidence=request.confidence)
    question = Question(workload=workload, layout=layout, fixed=fixed, limits=limits)
    searched = list_varied_fields(question) - set_fields
    resolved, device = _resolve_model(request, resolve), read_device(request.gpu)
    model = None if resolved is None else resolved.architecture
    notes = (*notes, *list_search_notes(request.workload, searched - starts))
    if model is not None:
        workload = question.workload
        if "kv_cache_dtype" not in set_fields:
            workload = adopt_cache_format(model, workload)
        workload = select_format(device, model, workload, layout, fixed=set_fields)
        workload_defaults = restate_defaults(workload_defaults, workload)
    lines = (*workload_defaults, *layout_defaults, *notes)
    return CeilingQuestion(
        architecture=None if model is None else as_loaded(model, workload),
        question=replace(question, workload=workload),
        device=device,
        maximized=maximized,
        cluster=get_or_default(request.cluster, ""),
        assumptions=(
            *(() if resolved is None else resolved.notes),
            *(
                line
                for line in lines
                if line.partition(" = ")[0].rpartition(".")[2] not in searched | starts
            ),
            *([_SCALED_NOTE] if model is None and not isinstance(request.model, UnsetType) else ()),
        ),
    )


def _require_open(set_fields: frozenset[str], name: str) -> None:
    if name in set_fields:
        message = (
            f"global_batch_size is {name} x gradient_accumulation_steps x ranks: leave {name} out"
        )
        raise InvalidRequestError(
            message, errors=[{"field": f"workload.{name}", "message": message}]
        )


def _require_free_length(workload: Workload) -> None:
    """Refuse lengths of the data: no sequence outgrows the longest."""
    if not isinstance(workload, TrainWorkload) or not workload.sequence_lengths:
        return
    if workload.packing is not SequencePacking.PACKED:
        message = (
            "sequence_lengths say how long the sequences are, so that none grows with "
            "sequence_length: leave sequence_lengths out, or maximize another word"
        )
        raise InvalidInputError(message, field="workload.sequence_lengths")


def _complete_workload(request: CeilingRequest) -> WorkloadRequest:
    """Return the workload with the maximised field at its smallest."""
    document = msgspec.to_builtins(request.workload)
    allowed = set(request.workload.__struct_fields__)
    document |= {
        name: value for name, value in _SMALLEST[request.maximize].items() if name in allowed
    }
    try:
        complete: WorkloadRequest = convert(document, WorkloadRequest)
    except msgspec.ValidationError as error:
        raise explain(
            error, WorkloadRequest, document, spell=lambda path: f"workload.{path}"
        ) from error
    return complete


def _resolve_model(
    request: CeilingRequest, resolve: Callable[[ModelReference], ResolvedModel]
) -> ResolvedModel | None:
    """Return the model, or none where its size is maximised.

    Then it is none whatever the request says of it.
    """
    if request.maximize is Maximized.NUM_PARAMETERS:
        if not isinstance(request.model, UnsetType):
            resolve(request.model)
        return None
    if isinstance(request.model, UnsetType):
        message = "model: required and missing"
        raise InvalidRequestError(
            message, errors=[{"field": "model", "message": "required and missing"}]
        )
    return resolve(request.model)
