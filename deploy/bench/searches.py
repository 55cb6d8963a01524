"""Searches in process, warm: plans of a 70B model on four kinds of GPUs with everything open, and of serving it."""

import statistics
import time
from collections.abc import Callable
from functools import partial

from rich.table import Table

from service.api.plan_questions import read_plan, read_prices
from service.api.questions import ResolvedModel
from service.api.schemas.how_many import Constraints
from service.api.schemas.plans import PlanRequest
from service.api.schemas.workload import ServeRequest, TrainRequest, WorkloadRequest
from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import PlanCache
from service.estimator.workload import Engine
from service.planner.objectives import Objective
from service.usecases.plans import PlanReport, answer_plans

MODEL = "llama-2-70b"
KINDS = ["A100-SXM4-80GB", "H100-SXM5-80GB", "A100-SXM4-40GB", "H200-SXM5-141GB"]
ROUNDS = 15


def searches() -> Table:
    """Return the times of whole answers, candidates replayed, and how much was considered for them."""
    table = Table(
        "question", "p50 ms", "first time, ms", "layouts", "estimated", "GPUs", title="Searches in process, four kinds of GPUs"
    )
    trained = TrainRequest(sequence_length=4096)
    served = ServeRequest(num_sequences=64, prompt_tokens=1536, output_tokens=512, engine=Engine.VLLM)
    for objective in Objective:
        table.add_row(*_row(f"train, {objective.value}", _asked(trained, objective)))
    table.add_row(*_row("serve on vllm, fewest_gpus", _asked(served, Objective.FEWEST_GPUS)))
    return table


def _asked(workload: WorkloadRequest, objective: Objective) -> PlanRequest:
    bounds = Constraints(max_gpus=512)
    return PlanRequest(model=MODEL, workload=workload, gpus=[*KINDS], objective=objective, constraints=bounds)


def _row(title: str, request: PlanRequest) -> tuple[str, ...]:
    model = ResolvedModel(architecture=load_architecture(resolve_model(MODEL)))
    question = read_plan(request, model, read_prices(request))
    ask = partial(answer_plans, question, plans=PlanCache())
    first, _ = _timed(ask)
    times, reports = zip(*(_timed(ask) for _ in range(ROUNDS)), strict=True)
    offered = reports[0].plans.offered
    searched = [one.plan.searched for one in offered]
    return (
        title,
        f"{statistics.median(times):.0f}",
        f"{first:.0f}",
        f"{sum(one.layouts for one in searched):,}",
        f"{sum(one.estimated for one in searched):,}",
        ", ".join(str(one.plan.num_gpus) for one in offered),
    )


def _timed(ask: Callable[[], PlanReport]) -> tuple[float, PlanReport]:
    begin = time.perf_counter()
    report = ask()
    return (time.perf_counter() - begin) * 1e3, report
