"""Pipelines of diffusers, and whether a call of one fits."""

from functools import partial
from typing import Any

from litestar import Request, Router, get, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.api.computing.budgets import Budget
from service.api.computing.searches import judge_call
from service.api.http.computing import compute_search, run_search
from service.api.http.decoding import read_body, read_query
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.http.operation import BODY_PROBLEMS, Operation, Reply
from service.api.http.pagination import make_page_request
from service.api.http.responses import json_response
from service.catalog.pipelines.shipped import list_pipeline_names, load_pipeline
from service.contract.schemas.fields import PageQuery
from service.contract.schemas.fit import FitAnswer
from service.contract.schemas.pipelines.generation import PipelineFitRequest, PipelinePage
from service.contract.to_answer.pipelines.generation import build_generation_answer
from service.contract.to_answer.pipelines.shipped import build_pipeline
from service.contract.to_question.generation import read_generation
from service.usecases.questions.generation import answer_generation
from service.usecases.stored import make_page_by_name

EXAMPLE = {
    "pipeline": "flux.1-dev",
    "workload": {"task": "generate", "height": 1024, "width": 1024, "offloading": "model"},
    "gpu": "RTX-4090",
}


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listPipelines",
        tag="pipelines",
        summary="List the pipelines of diffusers that are shipped, with their components.",
        query=PageQuery,
        replies={200: Reply(description="One page.", bodies=(PipelinePage,))},
        problems=(422,),
    ),
)
def list_all(request: Request[Any, Any, Any]) -> ASGIApp:
    """List the shipped pipelines."""
    query = read_query(request.scope, PageQuery)
    page = make_page_by_name(
        list_pipeline_names(),
        make_page_request(query.limit, query.cursor),
        list_name="pipelines",
        name=str,
    )
    return json_response(
        PipelinePage(
            items=[build_pipeline(load_pipeline(name)) for name in page.items],
            next_cursor=page.next_cursor,
        )
    )


@post(
    "/fit",
    status_code=200,
    operation=Operation(
        id="fitPipeline",
        tag="pipelines",
        summary="Say whether a call of a pipeline fits on a GPU, and why.",
        description="The highest of its phases decides: text encoding, denoising, decoding. "
        "The answer is that of /v1/fit; its instants are the phases.",
        body=PipelineFitRequest,
        example=EXAMPLE,
        replies={
            200: Reply(description="The verdict, and everything it rests on.", bodies=(FitAnswer,))
        },
        problems=BODY_PROBLEMS,
    ),
)
async def fit_pipeline(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Say whether a call of a pipeline fits."""
    read = partial(read_body, request.scope, body, PipelineFitRequest)
    return await compute_search(request, read, partial(_answer, get_dependencies(request)))


def _answer(deps: Dependencies, payload: PipelineFitRequest, budget: Budget) -> ASGIApp:
    """Answer a question.

    One whose recording may be a stranger's is answered in a process beside this.
    """
    question = read_generation(payload)
    report = (
        answer_generation(question, check=budget.check)
        if isinstance(payload.pipeline, str)
        else run_search(deps, judge_call, question, budget)
    )
    return json_response(build_generation_answer(report, question))


router = Router(path="/v1/pipelines", route_handlers=[list_all, fit_pipeline])
