"""From a decoded ceilings request to a question that the planner can answer."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
from msgspec import UnsetType

from service.base.errors import InvalidRequestError
from service.base.typed import converted
from service.contract.schemas.ceilings import CeilingRequest
from service.contract.schemas.fields import optional
from service.contract.schemas.fit import ModelReference
from service.contract.schemas.workload import ServeRequest, WorkloadRequest
from service.contract.to_question.fits import ResolvedModel, read_device, restated, words_said
from service.contract.to_question.validation_errors import explain
from service.contract.to_question.workloads import read_layout, read_workload
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.loading import as_loaded
from service.planner.fit.confidence import confidence_notes
from service.planner.fit.hardware import in_format_of
from service.planner.plans.ceiling_values import Maximized
from service.planner.search.search_space import Limits, Question
from service.planner.search.splits import varied_words
from service.usecases.questions.ceilings import CeilingQuestion

_LEAST = {
    Maximized.MICRO_BATCH_SIZE: {"micro_batch_size": 1},
    Maximized.GLOBAL_BATCH_SIZE: {"micro_batch_size": 1},
    Maximized.SEQUENCE_LENGTH: {"sequence_length": 1, "prompt_tokens": 1},
    Maximized.NUM_SEQUENCES: {"num_sequences": 1},
    Maximized.MAX_MODEL_LEN: {},
    Maximized.LORA_RANK: {},
    Maximized.NUM_PARAMETERS: {},
}
_OF_ANY_SIZE = "model = llamas scaled to every size: num_parameters is what is asked, and the model that was named has one"
_ACCUMULATED = "accumulating takes no more memory: any multiple of this batch fits with more gradient_accumulation_steps"


def read_ceiling(request: CeilingRequest, resolve: Callable[[ModelReference], ResolvedModel]) -> CeilingQuestion:
    """Return the question; the word that is maximised starts at its least, whatever the request says of it."""
    maximized = request.maximize
    said = words_said(request.workload) | words_said(request.layout)
    workload, workload_defaults = read_workload(_complete(request))
    layout, layout_defaults = read_layout(request.layout, serves=isinstance(request.workload, ServeRequest))
    starts = frozenset(_LEAST[maximized])
    num_gpus = optional(request.num_gpus)
    fixed = said | starts | (frozenset({"data_parallel"}) if num_gpus is None else frozenset())
    notes = confidence_notes(request.confidence, workload)
    if maximized is Maximized.GLOBAL_BATCH_SIZE:
        _require_open(said, "micro_batch_size")
        fixed, notes = fixed | {"gradient_accumulation_steps"}, (*notes, _ACCUMULATED)
    limits = Limits(max_gpus=num_gpus or layout.num_gpus, confidence=request.confidence)
    question = Question(workload=workload, layout=layout, fixed=fixed, limits=limits)
    searched = varied_words(question) - said
    model, device = _model(request, resolve), read_device(request.gpu)
    if model is not None:
        workload = in_format_of(device, model, question.workload, layout, fixed=said)
        workload_defaults = restated(workload_defaults, workload)
    lines = (*workload_defaults, *layout_defaults, *notes)
    return CeilingQuestion(
        architecture=None if model is None else as_loaded(model, workload),
        question=replace(question, workload=workload),
        device=device,
        maximized=maximized,
        assumptions=(
            *(line for line in lines if line.partition(" = ")[0].rpartition(".")[2] not in searched | starts),
            *([_OF_ANY_SIZE] if model is None and not isinstance(request.model, UnsetType) else ()),
        ),
    )


def _require_open(said: frozenset[str], name: str) -> None:
    if name in said:
        message = f"global_batch_size is {name} x gradient_accumulation_steps x ranks: leave {name} out"
        raise InvalidRequestError(message, errors=[{"field": f"workload.{name}", "message": message}])


def _complete(request: CeilingRequest) -> WorkloadRequest:
    """Return the workload with the least value of what is maximised."""
    document = msgspec.to_builtins(request.workload)
    allowed = set(request.workload.__struct_fields__)
    document |= {name: value for name, value in _LEAST[request.maximize].items() if name in allowed}
    try:
        complete: WorkloadRequest = converted(document, WorkloadRequest)
    except msgspec.ValidationError as error:
        raise explain(error, WorkloadRequest, document, spell=lambda path: f"workload.{path}") from error
    return complete


def _model(request: CeilingRequest, resolve: Callable[[ModelReference], ResolvedModel]) -> Architecture | None:
    """Return the model; none where its size is what is maximised, whatever the request says of it."""
    if request.maximize is Maximized.NUM_PARAMETERS:
        if not isinstance(request.model, UnsetType):
            resolve(request.model)
        return None
    if isinstance(request.model, UnsetType):
        message = "model: required and missing"
        raise InvalidRequestError(message, errors=[{"field": "model", "message": "required and missing"}])
    return resolve(request.model).architecture
