"""GET /v1/how-many: the smallest number of GPUs, from query parameters, as JSON or as the bare number."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any

import msgspec
from litestar import Request, Router, get
from litestar.types import ASGIApp, Scope
from msgspec import Struct, UnsetType

from service.api.http.decoding import read_query
from service.api.http.dependencies import parts_of
from service.api.http.disconnect import in_thread_unless_left, while_wanted
from service.api.http.negotiation import prefers_text
from service.api.http.operation import JSON, STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_answer, text_answer
from service.api.resources.resolving import resolve_model
from service.base.errors import InvalidRequestError
from service.base.typed import converted
from service.contract.schemas.how_many import (
    BODY_WORDS,
    CONSTRAINT_WORDS,
    LAYOUT_WORDS,
    LORA_WORDS,
    FamilyAnswer,
    HowManyAnswer,
    HowManyQuery,
    HowManyRequest,
)
from service.contract.to_answer.how_many import how_many_answer, how_many_text
from service.contract.to_question.searches import read_how_many
from service.contract.to_question.validation_errors import explain
from service.estimator.estimate import PlanCache
from service.estimator.values.errors import EstimatorError
from service.usecases.questions.how_many import answer_how_many

_SPELT_FLAT = frozenset({"workload", "layout", "constraints", "gpu"})
ELSEWHERE = frozenset({"model", "gpu", "memory_bytes", "confidence"})


@get(
    "/",
    operation=Operation(
        id="howMany",
        tag="how-many",
        summary="Say how many GPUs a workload needs.",
        description="What the query says is kept to the letter; data_parallel, zero_stage, sharding, activation_checkpointing "
        "and micro_batch_size are searched where it says nothing. Accept: text/plain answers with the bare number.",
        query=HowManyQuery,
        replies={
            200: Reply(
                description="The number, or one answer per SKU of a family.",
                bodies=(HowManyAnswer, FamilyAnswer),
                media_types=(JSON, "text/plain"),
                headers={"Vary": "Accept"},
            )
        },
        problems=(422, *STORED_PROBLEMS),
    ),
)
async def how_many(request: Request[Any, Any, Any]) -> ASGIApp:
    """Say how many GPUs a workload needs."""
    return await in_thread_unless_left(request, partial(_counted, request))


def _counted(request: Request[Any, Any, Any]) -> ASGIApp:
    started = perf_counter()
    parts = parts_of(request)
    asked = request_from_query(_read(request.scope))
    with fields_as_parameters():
        question = read_how_many(asked, resolve_model(parts.specs, asked.model))
        found = answer_how_many(question, plans=PlanCache(), find_corrections=while_wanted(parts.corrections.find))
    if prefers_text(request.headers.get("accept")):
        return text_answer(how_many_text(found))
    answer = how_many_answer(found, assumptions=question.assumptions, elapsed_s=perf_counter() - started)
    return json_answer(answer, headers={"vary": "Accept"})


def _read(scope: Scope) -> Struct:
    """Return the parameters; of a word that only a body can carry, say where one is taken."""
    try:
        return read_query(scope, HowManyQuery)
    except InvalidRequestError as error:
        refused: Any = error.extra.get("errors", ())
        name = next((entry["field"] for entry in refused if entry["field"] in BODY_WORDS), None)
        if name is None:
            raise
        message = f"{name} is a list or an object, which no query parameter can spell: ask POST /v1/plans with this one GPU"
        raise InvalidRequestError(message, errors=[{"field": name, "message": message}]) from error


def request_from_query(query: Struct) -> HowManyRequest:
    """Return the request that query parameters spell; words that the task does not have are refused."""
    said = {name: value for name in query.__struct_fields__ if not isinstance(value := getattr(query, name), UnsetType)}
    document: dict[str, Any] = {name: said[name] for name in ("model", "confidence") if name in said}
    document["gpu"] = _gpu(said)
    words = {name: value for name, value in said.items() if name not in ELSEWHERE}
    document["layout"] = _take(words, LAYOUT_WORDS)
    document["constraints"] = _take(words, CONSTRAINT_WORDS)
    lora = {name.removeprefix("lora_"): value for name, value in _take(words, LORA_WORDS).items()}
    document["workload"] = words | ({"lora": lora} if lora else {})
    try:
        return converted(document, HowManyRequest)
    except msgspec.ValidationError as error:
        raise explain(error, HowManyRequest, document, spell=parameter) from error


def parameter(path: str) -> str:
    """Return the query parameter that a path of a request is spelt as."""
    head, _, rest = path.partition(".")
    return rest.replace("lora.", "lora_", 1) if head in _SPELT_FLAT and rest else path


@contextmanager
def fields_as_parameters() -> Iterator[None]:
    """Name parameters, not paths of a body that nobody sent, in what the estimator refuses."""
    try:
        yield
    except EstimatorError as error:
        error.field = parameter(error.field) if error.field else None
        raise


def _gpu(said: dict[str, Any]) -> object:
    if ("gpu" in said) == ("memory_bytes" in said):
        message = "say the GPU once: gpu=A100-SXM4-80GB, or memory_bytes=80Gi"
        raise InvalidRequestError(message, errors=[{"field": "gpu", "message": message}])
    return said["gpu"] if "gpu" in said else {"memory_bytes": said["memory_bytes"]}


def _take(words: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: words.pop(name) for name in names if name in words}


router = Router(path="/v1/how-many", route_handlers=[how_many])
