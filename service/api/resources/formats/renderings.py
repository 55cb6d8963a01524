"""Formats of schedulers, and fits rendered in them."""

from functools import partial
from typing import Any

from litestar import Request, Router, get, post
from litestar.params import FromPath, RawBody
from litestar.types import ASGIApp

from service.api.computing.budgets import Budget
from service.api.computing.searches import judge
from service.api.http.computing import compute_search, run_search
from service.api.http.decoding import read_body, read_query
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.pagination import make_page_request
from service.api.http.responses import json_response
from service.api.resources.resolving import bring_draft, resolve_model
from service.base.errors import InvalidRequestError
from service.contract.schemas.fields import PageQuery, get_or_default
from service.contract.schemas.formats.renderings import (
    FormatName,
    FormatPage,
    RenderingAnswer,
    RenderingRequest,
)
from service.contract.schemas.models import HubToken
from service.contract.to_answer.formats.renderings import build_format, build_rendering_answer
from service.contract.to_question.formats.renderings import read_rendering
from service.formats.manifests.registry import FORMATS
from service.telemetry.spans import span
from service.usecases.questions.renderings import RenderingQuestion
from service.usecases.stored import make_page_by_name

EXAMPLE = {
    "model": "llama-3.2-1b",
    "workload": {"task": "serve", "engine": "vllm", "num_sequences": 8, "prompt_tokens": 512},
    "gpu": "L4",
}


@get(
    "/",
    sync_to_thread=False,
    operation=Operation(
        id="listFormats",
        tag="plans",
        summary="List the formats of schedulers that a job is rendered in, and what each carries.",
        query=PageQuery,
        replies={200: Reply(description="One page.", bodies=(FormatPage,))},
        problems=(422,),
    ),
)
def list_all(request: Request[Any, Any, Any]) -> ASGIApp:
    """List the formats."""
    query = read_query(request.scope, PageQuery)
    page = make_page_by_name(
        tuple(FORMATS.values()),
        make_page_request(query.limit, query.cursor),
        list_name="formats",
        name=lambda row: row.word,
    )
    return json_response(
        FormatPage(items=[build_format(row) for row in page.items], next_cursor=page.next_cursor)
    )


@post(
    "/{name:str}",
    status_code=200,
    operation=Operation(
        id="renderFit",
        tag="plans",
        summary="Render a workload on a GPU in a layout for a scheduler, where it fits.",
        description=(
            "The question is that of POST /v1/fit, and its layout is taken as it is; POST "
            "/v1/plans searches one and has the same formats. What does not fit is not rendered: "
            "`reason` says what lacks."
        ),
        body=RenderingRequest,
        path={"name": FormatName},
        headers={"Hub-Token": HubToken},
        example=EXAMPLE,
        replies={200: Reply(description="The rendering.", bodies=(RenderingAnswer,))},
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def render(request: Request[Any, Any, Any], name: FromPath[str], body: RawBody) -> ASGIApp:
    """Render a fit."""
    return await compute_search(
        request,
        partial(_read_rendering, request, name, body),
        partial(_answer, get_dependencies(request)),
    )


def _read_rendering(request: Request[Any, Any, Any], word: str, body: RawBody) -> RenderingQuestion:
    deps = get_dependencies(request)
    payload = bring_draft(deps, read_body(request.scope, body, RenderingRequest), request.scope)
    if word not in FORMATS:
        message = f"there is no format {word!r}; formats: {', '.join(FORMATS)}"
        raise InvalidRequestError(message, errors=[{"field": "name", "message": message}])
    deps.cluster_names.require(get_or_default(payload.cluster, ""))
    return read_rendering(word, payload, resolve_model(deps, payload.model, request.scope))


def _answer(deps: Dependencies, question: RenderingQuestion, budget: Budget) -> ASGIApp:
    with span("rendering.judge", format=question.word):
        report = run_search(deps, judge, question.fit, budget)
    return json_response(build_rendering_answer(question, report))


router = Router(path="/v1/formats", route_handlers=[list_all, render])
