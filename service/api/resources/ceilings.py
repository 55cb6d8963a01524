"""POST /v1/ceilings: the largest value that still fits.

Of the batch, the sequence, the concurrency, the LoRA rank or the model.
"""

from functools import partial
from typing import Any

from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.api.computing.budgets import Budget
from service.api.computing.searches import SearchAnswer, find_ceiling
from service.api.http.computing import run_search
from service.api.http.decoding import read_body
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.resources.kept_answers import ETAG, SEEN, answer_search, show_search
from service.api.resources.resolving import bring_draft, resolve_model
from service.contract.schemas.ceilings import CeilingAnswer, CeilingRequest
from service.contract.schemas.fields import IfNoneMatch, get_or_default
from service.contract.schemas.models import HubToken
from service.contract.to_question.ceilings import read_ceiling
from service.telemetry.spans import span
from service.usecases.questions.ceilings import CeilingQuestion

EXAMPLE = {
    "model": "llama-2-7b",
    "workload": {"task": "train", "method": "lora", "precision": "bf16", "sequence_length": 4096},
    "gpu": "A100-SXM4-80GB",
    "maximize": "micro_batch_size",
}


@post(
    "/",
    status_code=200,
    operation=Operation(
        id="ceiling",
        tag="ceilings",
        summary="Say how large a batch, a sequence, a load, an adapter or a model may be.",
        description="Bisects on the model's own answers: the ceiling comes with the answer of "
        "/v1/fit there and with what the "
        "next value lacks. Every layout of `num_gpus`, its framework, sharding and recomputation "
        "are searched where the "
        "request says nothing; without `num_gpus` the GPUs are those of the `layout`.",
        body=CeilingRequest,
        headers={"If-None-Match": IfNoneMatch, "Hub-Token": HubToken},
        example=EXAMPLE,
        replies={
            200: Reply(
                description="The ceiling, proved from both sides.",
                bodies=(CeilingAnswer,),
                headers={"ETag": ETAG},
            ),
            304: Reply(description=SEEN, headers={"ETag": ETAG}),
        },
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def ceiling(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Say how large a value may be."""
    return await answer_search(
        request,
        "ceiling",
        partial(_read_ceiling, request, body),
        partial(_search_ceiling, get_dependencies(request)),
        partial(show_search, request.scope),
    )


def _read_ceiling(request: Request[Any, Any, Any], body: RawBody) -> CeilingQuestion:
    deps = get_dependencies(request)
    payload = bring_draft(deps, read_body(request.scope, body, CeilingRequest), request.scope)
    deps.cluster_names.require(get_or_default(payload.cluster, ""))
    return read_ceiling(payload, partial(resolve_model, deps, scope=request.scope))


def _search_ceiling(deps: Dependencies, question: CeilingQuestion, budget: Budget) -> SearchAnswer:
    with span("ceiling.search", maximized=question.maximized.value):
        return run_search(deps, find_ceiling, question, budget)


router = Router(path="/v1/ceilings", route_handlers=[ceiling])
