"""POST /v1/plans: the best set of GPUs and the layout on it, and why nothing smaller is enough."""

from functools import partial
from time import perf_counter
from typing import Any

from anyio.from_thread import check_cancelled
from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.http.decoding import read_body
from service.api.http.dependencies import Parts, parts_of
from service.api.http.disconnect import in_thread_unless_left, while_wanted
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_answer
from service.api.resources.resolving import resolve_model
from service.base.errors import ClusterNotFoundError, InvalidRequestError
from service.catalog.gpus import resolve_device
from service.contract.schemas.plans import PlanAnswer, PlanRequest
from service.contract.to_answer.plans import plan_answer
from service.contract.to_question.plans import cluster_of, read_plan, read_prices
from service.planner.cluster.placement import Supply
from service.telemetry.spans import span
from service.usecases.clusters import reservations
from service.usecases.questions.placement import place_plans
from service.usecases.questions.plans import PlanReport, answer_plans

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
    operation=Operation(
        id="plan",
        scope=Scope.PLAN,
        tag="plans",
        summary="Say how many GPUs of which kind, in which layout.",
        description="What the request says is kept to the letter, what it leaves open is searched: the number of GPUs, all "
        "degrees, sharding, framework, micro batch, accumulation and checkpointing; offload and quantised weights only where "
        "`allow` names them. That nothing is enough is an answer, with the closest miss and the smallest change that helps. "
        "On a `cluster` the plan runs on nodes that are free today, beside what is reserved; where none does, `placement` "
        "says who is in the way of the best plan for the empty cluster. What was placed can be reserved as it is.",
        body=PlanRequest,
        example=EXAMPLE,
        replies={200: Reply(description="The best plans, and why nothing smaller is enough.", bodies=(PlanAnswer,))},
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def plan(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Say how many GPUs of which kind, in which layout."""
    return await in_thread_unless_left(request, partial(_planned, request, body))


def _planned(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    started = perf_counter()
    parts = parts_of(request)
    asked = read_body(request.scope, body, PlanRequest)
    prices = read_prices(asked)
    cluster = cluster_of(asked)
    question = read_plan(asked, resolve_model(parts.specs, asked.model), prices)
    plans = parts.plans.given_up_by(check_cancelled)
    answer = partial(answer_plans, plans=plans, find_corrections=while_wanted(parts.corrections.find))
    if cluster is None:
        with span("plan.search"):
            report = answer(question)
        _count(parts, report)
        return json_answer(plan_answer(report, question, prices, elapsed_s=perf_counter() - started))
    supply = _supply(parts, cluster)
    with span("plan.place", cluster=cluster):
        placed = place_plans(question, supply, answer, device_of=resolve_device, price_of=prices.of)
    _count(parts, placed.report)
    elapsed_s = perf_counter() - started
    return json_answer(plan_answer(placed.report, question, prices, elapsed_s=elapsed_s, placements=placed.placements))


def _count(parts: Parts, report: PlanReport) -> None:
    searched = [offered.plan.searched for offered in report.plans.offered]
    layouts, estimated = sum(one.layouts for one in searched), sum(one.estimated for one in searched)
    parts.metrics.count_search("plan", layouts=layouts, estimated=estimated)


def _supply(parts: Parts, cluster: str) -> Supply:
    try:
        return reservations.supply_of(parts.sessions, cluster)
    except ClusterNotFoundError as error:
        raise InvalidRequestError(error.detail, errors=[{"field": "cluster", "message": error.detail}]) from error


router = Router(path="/v1/plans", route_handlers=[plan])
