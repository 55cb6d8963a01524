"""GET and POST /v1/how-many: the smallest number of GPUs.

Asked by query parameters or by a body, answered as JSON or as the bare number. A shell asks with
``as=count``: the status then says whether a number is enough.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
from litestar import Request, Router, get, post
from litestar.params import RawBody
from litestar.types import ASGIApp, Scope
from msgspec import Struct, UnsetType

from service.api.computing.budgets import Budget
from service.api.computing.searches import CountJob, SearchAnswer, count_gpus
from service.api.http.computing import run_search
from service.api.http.decoding import read_body, read_query
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.http.negotiation import is_text_preferred
from service.api.http.operation import (
    BODY_PROBLEMS,
    JSON,
    STORED_PROBLEMS,
    Operation,
    Reply,
)
from service.api.http.responses import text_response
from service.api.resources.kept_answers import ETAG, SEEN, answer_search, respond_kept
from service.api.resources.resolving import bring_draft, resolve_model
from service.base.count_errors import NothingFitsError
from service.base.errors import InvalidRequestError, ServiceError
from service.base.typed import convert
from service.contract.schemas.fields import IfNoneMatch, get_or_default, get_or_none
from service.contract.schemas.how_many import FamilyAnswer, HowManyAnswer, HowManyRequest
from service.contract.schemas.models import HubToken
from service.contract.schemas.queries.how_many import (
    BODY_WORDS,
    AnswerQuery,
    HowManyQuery,
    nest_words,
)
from service.contract.to_answer.phrases import read_gpu_count
from service.contract.to_question.searches import read_how_many
from service.contract.to_question.validation_errors import explain
from service.estimator.values.errors import EstimatorError
from service.usecases.questions.answer_cache import FinishedAnswer
from service.usecases.questions.how_many import HowManyQuestion

_FLAT_SECTIONS = frozenset({"model", "workload", "layout", "constraints", "gpu"})
HUB_FIELDS = ("hub", "revision", "file")
COPIED_FIELDS = ("cluster", "confidence", "container_image")
TOP_LEVEL_FIELDS = frozenset(
    {"model", *HUB_FIELDS, "gpu", "memory_bytes", "format", *COPIED_FIELDS}
)

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
        headers={"Vary": "Accept", "ETag": ETAG},
    ),
    304: Reply(description=SEEN, headers={"Vary": "Accept", "ETag": ETAG}),
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
        "the bare number; so does as=count, for shells: 406 says that no number is enough. With "
        "format each candidate is rendered for a scheduler, as JSON.",
        query=HowManyQuery,
        headers={"If-None-Match": IfNoneMatch, "Hub-Token": HubToken},
        replies=_REPLIES,
        problems=(406, 422, *STORED_PROBLEMS),
    ),
)
async def how_many(request: Request[Any, Any, Any]) -> ASGIApp:
    """Say how many GPUs a workload needs."""
    query = _read_parameters(request.scope)
    form = _get_form(query)
    with translate_error_field():
        return await _respond(request, partial(_read_queried, request, query, form), form)


@post(
    "/",
    status_code=200,
    operation=Operation(
        id="askHowMany",
        tag="how-many",
        summary="Say how many GPUs a workload needs, asked by a body.",
        description="The same question for what no query can spell: a model that is brought along, "
        "lists and objects. Accept: text/plain answers with the bare number, and so does as=count; "
        "format renders each candidate for schedulers, as JSON.",
        query=AnswerQuery,
        body=HowManyRequest,
        headers={"If-None-Match": IfNoneMatch, "Hub-Token": HubToken},
        example=EXAMPLE,
        replies=_REPLIES,
        problems=(406, *BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def ask_how_many(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Say how many GPUs a workload needs, asked by a body."""
    form = _get_form(read_query(request.scope, AnswerQuery))
    return await _respond(request, partial(_read_asked, request, body, form), form)


async def _respond(
    request: Request[Any, Any, Any], read: Callable[[], HowManyQuestion], form: str | None
) -> ASGIApp:
    prefers_text = form is None and is_text_preferred(request.headers.get("accept"))

    def read_job() -> CountJob:
        question = read()
        return CountJob(question=question, as_text=prefers_text and not question.formats)

    return await answer_search(
        request,
        "how_many",
        read_job,
        partial(_search_count, get_dependencies(request)),
        partial(_show_count, request.scope, form),
    )


def _get_form(query: Any) -> str | None:  # noqa: ANN401 - a struct of parameters
    form: str | None = get_or_none(query.form)
    return form


def _read_queried(
    request: Request[Any, Any, Any], query: Struct, form: str | None
) -> HowManyQuestion:
    return _read_question(request, build_request(query), form)


def _read_asked(
    request: Request[Any, Any, Any], body: RawBody, form: str | None
) -> HowManyQuestion:
    payload = read_body(request.scope, body, HowManyRequest)
    drafted = bring_draft(get_dependencies(request), payload, request.scope)
    return _read_question(request, drafted, form)


def _read_question(
    request: Request[Any, Any, Any], payload: HowManyRequest, form: str | None
) -> HowManyQuestion:
    if form == "count" and get_or_none(payload.format) is not None:
        message = "as=count answers with the number alone, without a format: say one of the two"
        raise InvalidRequestError(message, errors=[{"field": "format", "message": message}])
    deps = get_dependencies(request)
    deps.cluster_names.require(get_or_default(payload.cluster, ""))
    return read_how_many(payload, resolve_model(deps, payload.model, request.scope))


def _search_count(deps: Dependencies, job: CountJob, budget: Budget) -> SearchAnswer:
    return run_search(deps, count_gpus, job, budget)


def _show_count(scope: Scope, form: str | None, job: CountJob, answer: FinishedAnswer) -> ASGIApp:
    if form != "count":
        return respond_kept(scope, answer, {"vary": "Accept"}, as_text=job.as_text)
    count = read_gpu_count(msgspec.json.decode(answer.body))
    if count.num_gpus is None:
        raise NothingFitsError(count.sentence)
    return text_response(str(count.num_gpus))


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
        if name != "form" and not isinstance(value := getattr(query, name), UnsetType)
    }
    document: dict[str, Any] = {"model": _read_model(values), "gpu": _read_gpu(values)}
    document |= {name: values[name] for name in COPIED_FIELDS if name in values}
    if "format" in values:
        document["format"] = [values["format"]]
    document |= nest_words(
        {name: value for name, value in values.items() if name not in TOP_LEVEL_FIELDS}
    )
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


router = Router(path="/v1/how-many", route_handlers=[how_many, ask_how_many])
