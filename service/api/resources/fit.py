"""POST /v1/fit: the operation, on the router and on the fast path."""

from typing import Any

from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.api.http.dependencies import get_dependencies
from service.api.http.fast_path import FastRoute
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.resources.batch import fit_batch
from service.api.resources.fit_answers import respond
from service.api.resources.kept_answers import ETAG, SEEN
from service.contract.schemas.fields import IfNoneMatch
from service.contract.schemas.fit import FitAnswer, FitRequest
from service.contract.schemas.models import HubToken

EXAMPLE = {
    "model": "llama-2-7b",
    "workload": {
        "task": "train",
        "method": "full",
        "precision": "bf16_mixed",
        "optimizer": "adamw",
        "micro_batch_size": 1,
        "sequence_length": 4096,
        "activation_checkpointing": "full",
        "attention": "flash",
    },
    "gpu": "A100-SXM4-80GB",
    "layout": {"data_parallel": 8, "zero_stage": 3, "sharding": "deepspeed"},
}


OPERATION = Operation(
    id="fit",
    tag="fit",
    summary="Say whether a workload fits on a GPU in a layout, and why.",
    description=(
        "Answers at once. That it does not fit is an answer, with the deficit and what would "
        "help. The `ETag` stands for the answer's bytes: with it as `If-None-Match` an answer that "
        "would be the same is 304 without a body."
    ),
    body=FitRequest,
    headers={"If-None-Match": IfNoneMatch, "Hub-Token": HubToken},
    example=EXAMPLE,
    replies={
        200: Reply(
            description="The verdict, and everything it rests on.",
            bodies=(FitAnswer,),
            headers={"ETag": ETAG},
        ),
        304: Reply(description=SEEN, headers={"ETag": ETAG}),
    },
    problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
)


@post("/", status_code=200, operation=OPERATION)
async def fit(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Say whether a workload fits."""
    return await respond(get_dependencies(request), request.scope, request.receive, body)


router = Router(path="/v1/fit", route_handlers=[fit, fit_batch])
FAST_ROUTE = FastRoute(path="/v1/fit", operation=OPERATION, respond=respond)
