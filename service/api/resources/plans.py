"""POST /v1/plans: the best GPUs and their layout.

With the reason why nothing smaller is enough.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Any

from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.computing.budgets import Budget
from service.api.http.computing import compute_search
from service.api.http.decoding import read_body
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.responses import json_response
from service.api.resources.resolving import bring_draft, resolve_model
from service.base.errors import ClusterNotFoundError, InvalidRequestError
from service.catalog.gpus import resolve_device
from service.contract.schemas.models import HubToken
from service.contract.schemas.plans import PlanAnswer, PlanRequest
from service.contract.to_answer.plans import build_plan_answer
from service.contract.to_question.plans import PriceBook, read_cluster, read_plan, read_prices
from service.planner.cluster.observations import list_observation_warnings
from service.planner.cluster.placement import Supply
from service.telemetry.spans import span
from service.usecases.clusters import reservations
from service.usecases.questions.placement import place_plans
from service.usecases.questions.plans import PlanQuestion, PlanReport, answer_plans

EXAMPLE = {
    "model": "llama-2-70b",
    "workload": {
        "task": "train",
        "method": "full",
        "precision": "bf16_mixed",
        "optimizer": "adamw",
        "sequence_length": 4096,
    },
    "gpus": ["A100-SXM4-80GB", "H100-SXM5-80GB"],
    "objective": "fewest_gpus",
    "constraints": {
        "max_gpus": 256,
        "gpus_per_node": 8,
        "global_batch_size": 512,
        "frameworks": ["deepspeed", "fsdp2"],
    },
}


@post(
    "/",
    status_code=200,
    operation=Operation(
        id="plan",
        scope=Scope.PLAN,
        tag="plans",
        summary="Say how many GPUs of which kind, in which layout.",
        description="What the request says is kept to the letter, what it leaves open is searched: "
        "the number of GPUs, all "
        "degrees, sharding, framework, micro batch, accumulation and checkpointing; offload and "
        "quantised weights only where "
        "`allow` names them. That nothing is enough is an answer, with the closest miss and the "
        "smallest change that helps. "
        "On a `cluster` the plan runs on nodes that are free today, beside what is reserved; where "
        "none does, `placement` "
        "says who is in the way of the best plan for the empty cluster. What was placed can be "
        "reserved as it is.",
        body=PlanRequest,
        headers={"Hub-Token": HubToken},
        example=EXAMPLE,
        replies={
            200: Reply(
                description="The best plans, and why nothing smaller is enough.",
                bodies=(PlanAnswer,),
            ),
        },
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def plan(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Say how many GPUs of which kind, in which layout."""
    return await compute_search(
        request, partial(_read_job, request, body), partial(_answer_plan, get_dependencies(request))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanJob:
    """Resolved question with its prices and any cluster."""

    question: PlanQuestion
    prices: PriceBook
    cluster: str | None


def _read_job(request: Request[Any, Any, Any], body: RawBody) -> _PlanJob:
    deps = get_dependencies(request)
    payload = bring_draft(deps, read_body(request.scope, body, PlanRequest), request.scope)
    prices = read_prices(payload)
    cluster = read_cluster(payload)
    question = read_plan(payload, resolve_model(deps, payload.model, request.scope), prices)
    return _PlanJob(question=question, prices=prices, cluster=cluster)


def _answer_plan(deps: Dependencies, job: _PlanJob, budget: Budget) -> ASGIApp:
    started = perf_counter()
    question, prices = job.question, job.prices
    plans = deps.plans.with_cancellation(budget.check)
    answer = partial(answer_plans, plans=plans, find_corrections=budget.limit(deps.corrections))
    if job.cluster is None:
        with span("plan.search"):
            report = answer(question)
        _count_search(deps, report)
        return json_response(
            build_plan_answer(report, question, prices, elapsed_s=perf_counter() - started)
        )
    supply = _read_supply(deps, job.cluster)
    with span("plan.place", cluster=job.cluster):
        placed = place_plans(
            question, supply, answer, device_of=resolve_device, price_of=prices.get_price
        )
    _count_search(deps, placed.report)
    elapsed_s = perf_counter() - started
    return json_response(
        build_plan_answer(
            placed.report,
            question,
            prices,
            elapsed_s=elapsed_s,
            placements=placed.placements,
            warnings=tuple(list_observation_warnings(supply.inventory, datetime.now(UTC))),
        ),
    )


def _count_search(deps: Dependencies, report: PlanReport) -> None:
    searched = [offered.plan.searched for offered in report.plans.offer_plans]
    layouts, estimated = (
        sum(search.layouts for search in searched),
        sum(search.estimated for search in searched),
    )
    deps.metrics.count_search("plan", layouts=layouts, estimated=estimated)


def _read_supply(deps: Dependencies, cluster: str) -> Supply:
    try:
        return reservations.read_supply(deps.sessions, cluster)
    except ClusterNotFoundError as error:
        raise InvalidRequestError(
            error.detail, errors=[{"field": "cluster", "message": error.detail}]
        ) from error


router = Router(path="/v1/plans", route_handlers=[plan])
