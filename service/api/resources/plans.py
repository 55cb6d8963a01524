"""POST /v1/plans: the best GPUs and their layout.

With the reason why nothing smaller is enough.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from litestar import Request, Router, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.computing.budgets import Budget
from service.api.computing.searches import PlanJob, SearchAnswer, answer_plan
from service.api.http.computing import run_search
from service.api.http.decoding import read_body
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.resources.kept_answers import (
    ETAG,
    SEEN,
    Unfinished,
    answer_search,
    show_search,
)
from service.api.resources.resolving import bring_draft, resolve_model
from service.base.errors import ClusterNotFoundError, InvalidRequestError
from service.contract.schemas.fields import IfNoneMatch
from service.contract.schemas.models import HubToken
from service.contract.schemas.plans import PlanAnswer, PlanRequest
from service.contract.to_question.plans import read_cluster, read_plan, read_prices
from service.planner.cluster.observations import list_observation_warnings
from service.planner.cluster.placement import build_supply
from service.telemetry.spans import span
from service.usecases.clusters import reservations
from service.usecases.stored import StoredCluster

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
        headers={"If-None-Match": IfNoneMatch, "Hub-Token": HubToken},
        example=EXAMPLE,
        replies={
            200: Reply(
                description="The best plans, and why nothing smaller is enough.",
                bodies=(PlanAnswer,),
                headers={"ETag": ETAG},
            ),
            304: Reply(description=SEEN, headers={"ETag": ETAG}),
        },
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def plan(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Say how many GPUs of which kind, in which layout."""
    return await answer_search(
        request,
        "plan",
        partial(_read_job, request, body),
        partial(_search_plan, get_dependencies(request)),
        partial(show_search, request.scope),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlacedJob:
    """Question, and the cluster that it is about."""

    job: PlanJob
    cluster: StoredCluster | None


def _read_job(
    request: Request[Any, Any, Any], body: RawBody
) -> _PlacedJob | Unfinished[_PlacedJob]:
    deps = get_dependencies(request)
    payload = bring_draft(deps, read_body(request.scope, body, PlanRequest), request.scope)
    prices = read_prices(payload)
    name = read_cluster(payload)
    question = read_plan(payload, resolve_model(deps, payload.model, request.scope), prices)
    job = PlanJob(question=question, prices=prices)
    if name is None:
        return _PlacedJob(job=job, cluster=None)
    return Unfinished(partial(_place_job, job, _fetch_stored(deps, name)))


def _place_job(job: PlanJob, build: Callable[[], StoredCluster]) -> _PlacedJob:
    """Return a question on a cluster, with warnings as of now."""
    cluster = build()
    warnings = list_observation_warnings(cluster.inventory, datetime.now(UTC))
    return _PlacedJob(job=replace(job, warnings=tuple(warnings)), cluster=cluster)


def _search_plan(deps: Dependencies, placed: _PlacedJob, budget: Budget) -> SearchAnswer:
    cluster = placed.cluster
    if cluster is None:
        with span("plan.search"):
            return run_search(deps, answer_plan, placed.job, budget)
    supply = build_supply(cluster.inventory, cluster.reservations)
    with span("plan.place", cluster=cluster.name):
        return run_search(deps, answer_plan, replace(placed.job, supply=supply), budget)


def _fetch_stored(deps: Dependencies, cluster: str) -> Callable[[], StoredCluster]:
    try:
        return reservations.fetch_snapshot(deps.sessions, cluster)
    except ClusterNotFoundError as error:
        raise InvalidRequestError(
            error.detail, errors=[{"field": "cluster", "message": error.detail}]
        ) from error


router = Router(path="/v1/plans", route_handlers=[plan])
