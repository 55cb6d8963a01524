"""GET and POST /v1/how-many: the smallest number of GPUs.

Asked by query parameters or by a body, answered as JSON or as the bare number.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any

import msgspec
from litestar import Request, Router, get, post
from litestar.params import RawBody
from litestar.types import ASGIApp, Scope
from msgspec import Struct, UnsetType

from service.api.computing.budgets import Budget
from service.api.http.computing import compute_search
from service.api.http.decoding import read_body, read_query
from service.api.http.dependencies import get_dependencies
from service.api.http.negotiation import is_text_preferred
from service.api.http.operation import (
    BODY_PROBLEMS,
    JSON,
    STORED_PROBLEMS,
    Operation,
    Reply,
)
from service.api.http.responses import json_response, text_response
from service.api.resources.resolving import bring_draft, resolve_model
from service.base.errors import InvalidRequestError, ServiceError
from service.base.typed import convert
from service.contract.schemas.how_many import FamilyAnswer, HowManyAnswer, HowManyRequest
from service.contract.schemas.models import HubToken
from service.contract.schemas.queries.how_many import (
    BODY_WORDS,
    CONSTRAINT_WORDS,
    LAYOUT_WORDS,
    LORA_WORDS,
    HowManyQuery,
)
from service.contract.to_answer.how_many import build_how_many_answer, render_how_many_text
from service.contract.to_question.searches import read_how_many
from service.contract.to_question.validation_errors import explain
from service.estimator.cache import PlanCache
from service.estimator.values.errors import EstimatorError
from service.usecases.questions.how_many import HowManyQuestion, answer_how_many

_FLAT_SECTIONS = frozenset({"model", "workload", "layout", "constraints", "gpu"})
HUB_FIELDS = ("hub", "revision", "file")
TOP_LEVEL_FIELDS = frozenset({"model", *HUB_FIELDS, "gpu", "memory_bytes", "confidence"})

EXAMPLE = {
    "model": "llama-2-7b",
    "gpu": "A100-SXM4-80GB",
    "workload": {"task": "train", "method": "lora", "sequence_length": 4096},
}
_REPLIES = {
    200: Reply(
        description="The number, or one answer per SKU of a family.",
        bodies=(HowManyAnswer, FamilyAnswer),
        media_types=(JSON, "text/plain"),
        headers={"Vary": "Accept"},
    ),
}


@get(
    "/",
    operation=Operation(
        id="howMany",
        tag="how-many",
        summary="Say how many GPUs a workload needs.",
        description="What the query says is kept to the letter; data_parallel, zero_stage, "
        "sharding, activation_checkpointing "
        "and micro_batch_size are searched where it says nothing. Accept: text/plain answers with "
        "the bare number.",
        query=HowManyQuery,
        headers={"Hub-Token": HubToken},
        replies=_REPLIES,
        problems=(422, *STORED_PROBLEMS),
    ),
)
async def how_many(request: Request[Any, Any, Any]) -> ASGIApp:
    """Say how many GPUs a workload needs."""
    return await compute_search(
        request, partial(_read_queried, request), partial(_count_queried, request)
    )


@post(
    "/",
    status_code=200,
    operation=Operation(
        id="askHowMany",
        tag="how-many",
        summary="Say how many GPUs a workload needs, asked by a body.",
        description="The same question for what no query can spell: a model that is brought along, "
        "lists and objects. Accept: text/plain answers with the bare number.",
        body=HowManyRequest,
        headers={"Hub-Token": HubToken},
        example=EXAMPLE,
        replies=_REPLIES,
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def ask_how_many(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Say how many GPUs a workload needs, asked by a body."""
    return await compute_search(
        request, partial(_read_asked, request, body), partial(_count_gpus, request)
    )


def _read_queried(request: Request[Any, Any, Any]) -> HowManyQuestion:
    payload = build_request(_read_parameters(request.scope))
    with translate_error_field():
        return _read_question(request, payload)


def _read_asked(request: Request[Any, Any, Any], body: RawBody) -> HowManyQuestion:
    payload = read_body(request.scope, body, HowManyRequest)
    return _read_question(request, bring_draft(get_dependencies(request), payload, request.scope))


def _read_question(request: Request[Any, Any, Any], payload: HowManyRequest) -> HowManyQuestion:
    deps = get_dependencies(request)
    return read_how_many(payload, resolve_model(deps, payload.model, request.scope))


def _count_queried(
    request: Request[Any, Any, Any], question: HowManyQuestion, budget: Budget
) -> ASGIApp:
    with translate_error_field():
        return _count_gpus(request, question, budget)


def _count_gpus(
    request: Request[Any, Any, Any], question: HowManyQuestion, budget: Budget
) -> ASGIApp:
    started = perf_counter()
    plans = answer_how_many(
        question,
        plans=PlanCache().with_cancellation(budget.check),
        find_corrections=budget.limit(get_dependencies(request).corrections),
    )
    if is_text_preferred(request.headers.get("accept")):
        return text_response(render_how_many_text(plans))
    answer = build_how_many_answer(
        plans, assumptions=question.assumptions, elapsed_s=perf_counter() - started
    )
    return json_response(answer, headers={"vary": "Accept"})


def _read_parameters(scope: Scope) -> Struct:
    """Return the query parameters.

    Of a field that only a body can carry, the refusal says where one is taken.
    """
    try:
        return read_query(scope, HowManyQuery)
    except InvalidRequestError as error:
        refused: Any = error.extra.get("errors", ())
        name = next((entry["field"] for entry in refused if entry["field"] in BODY_WORDS), None)
        if name is None:
            raise
        message = (
            f"{name} is a list or an object, which no query parameter can spell: ask POST "
            "/v1/how-many"
        )
        raise InvalidRequestError(message, errors=[{"field": name, "message": message}]) from error


def build_request(query: Struct) -> HowManyRequest:
    """Return the request that query parameters spell.

    Fields that the task does not have are refused.
    """
    values = {
        name: value
        for name in query.__struct_fields__
        if not isinstance(value := getattr(query, name), UnsetType)
    }
    document: dict[str, Any] = {"model": _read_model(values), "gpu": _read_gpu(values)}
    if "confidence" in values:
        document["confidence"] = values["confidence"]
    workload = {name: value for name, value in values.items() if name not in TOP_LEVEL_FIELDS}
    document["layout"] = _pop_fields(workload, LAYOUT_WORDS)
    document["constraints"] = _pop_fields(workload, CONSTRAINT_WORDS)
    lora = {
        name.removeprefix("lora_"): value
        for name, value in _pop_fields(workload, LORA_WORDS).items()
    }
    document["workload"] = workload | ({"lora": lora} if lora else {})
    try:
        return convert(document, HowManyRequest)
    except msgspec.ValidationError as error:
        raise explain(error, HowManyRequest, document, spell=to_parameter) from error


def to_parameter(path: str) -> str:
    """Return the query parameter of a path of a request."""
    head, _, tail = path.partition(".")
    return tail.replace("lora.", "lora_", 1) if head in _FLAT_SECTIONS and tail else path


@contextmanager
def translate_error_field() -> Iterator[None]:
    """Name query parameters in what the estimator refuses.

    Paths of a body would name what nobody sent.
    """
    try:
        yield
    except EstimatorError as error:
        error.field = to_parameter(error.field) if error.field else None
        raise
    except ServiceError as error:
        refused: Any = error.extra.get("errors", ())
        for entry in refused:
            entry["field"] = to_parameter(entry["field"])
        raise


def _read_model(values: dict[str, Any]) -> object:
    on_hub = {name: values[name] for name in HUB_FIELDS if name in values}
    if "model" in values and not on_hub:
        return values["model"]
    if "model" in values or "hub" not in on_hub:
        message = "say the model once: model=llama-2-7b, or hub=org/name with its revision and file"
        raise InvalidRequestError(message, errors=[{"field": "model", "message": message}])
    return on_hub


def _read_gpu(values: dict[str, Any]) -> object:
    if ("gpu" in values) == ("memory_bytes" in values):
        message = "say the GPU once: gpu=A100-SXM4-80GB, or memory_bytes=80Gi"
        raise InvalidRequestError(message, errors=[{"field": "gpu", "message": message}])
    return values["gpu"] if "gpu" in values else {"memory_bytes": values["memory_bytes"]}


def _pop_fields(values: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: values.pop(name) for name in names if name in values}


router = Router(path="/v1/how-many", route_handlers=[how_many, ask_how_many])
