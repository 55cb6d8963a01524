"""POST /v1/plans: the best set of GPUs and the layout on it, and why nothing smaller is enough."""

from time import perf_counter
from typing import Any

from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.api.decoding import read_body
from service.api.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.parts import Parts, parts_of
from service.api.plan_questions import cluster_of, read_plan, read_prices
from service.api.plan_reports import plan_answer
from service.api.resolving import resolve_model
from service.api.responses import json_answer
from service.api.schemas.plans import PlanAnswer, PlanRequest
from service.errors import ClusterNotFoundError, InvalidRequestError
from service.planner.inventory import ClusterInventory
from service.usecases import clusters
from service.usecases.plans import answer_plans

EXAMPLE = {
    "model": "llama-2-70b",
    "workload": {"task": "train", "method": "full", "precision": "bf16_mixed", "optimizer": "adamw", "sequence_length": 4096},
    "gpus": ["A100-SXM4-80GB", "H100-SXM5-80GB"],
    "objective": "fewest_gpus",
    "constraints": {"max_gpus": 256, "gpus_per_node": 8, "global_batch_size": 512, "frameworks": ["deepspeed", "fsdp2"]},
}


@post(
    "/",
    status_code=200,
    sync_to_thread=True,
    operation=Operation(
        id="plan",
        tag="plans",
        summary="Say how many GPUs of which kind, in which layout.",
        description="What the request says is kept to the letter, what it leaves open is searched: the number of GPUs, all "
        "degrees, sharding, framework, micro batch, accumulation and checkpointing; offload and quantised weights only where "
        "`allow` names them. That nothing is enough is an answer, with the closest miss and the smallest change that helps.",
        body=PlanRequest,
        example=EXAMPLE,
        replies={200: Reply(description="The best plans, and why nothing smaller is enough.", bodies=(PlanAnswer,))},
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def plan(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Say how many GPUs of which kind, in which layout."""
    started = perf_counter()
    parts = parts_of(request)
    asked = read_body(request.scope, body, PlanRequest)
    prices = read_prices(asked)
    question = read_plan(asked, resolve_model(parts.specs, asked.model), prices, _inventory(parts, cluster_of(asked)))
    report = answer_plans(question, plans=parts.plans, find_corrections=parts.corrections.find)
    return json_answer(plan_answer(report, question, prices, elapsed_s=perf_counter() - started))


def _inventory(parts: Parts, name: str | None) -> ClusterInventory | None:
    if name is None:
        return None
    try:
        return clusters.read(parts.sessions, name).inventory
    except ClusterNotFoundError as error:
        raise InvalidRequestError(error.detail, errors=[{"field": "cluster", "message": error.detail}]) from error


router = Router(path="/v1/plans", route_handlers=[plan])
