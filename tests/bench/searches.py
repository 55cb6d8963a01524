"""Benchmark of searches in process, warm.

They are plans of a 70B model on four kinds of GPUs with everything open, of serving it, and on a
cluster.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from rich.table import Table

from service.catalog.gpus import resolve_device
from service.catalog.models import load_architecture, resolve_model
from service.contract.schemas.how_many import Constraints
from service.contract.schemas.plans import PlanRequest
from service.contract.schemas.serving import ServeRequest
from service.contract.schemas.workload import TrainRequest, WorkloadRequest
from service.contract.to_question.models import ResolvedModel
from service.contract.to_question.plans import read_plan, read_prices
from service.estimator.cache import PlanCache
from service.estimator.values.corrections import Corrections, InstantCorrection
from service.estimator.values.workload import Engine
from service.planner.cluster.inventory import ClusterInventory, Node, Pool
from service.planner.cluster.placement import build_supply
from service.planner.plans.objectives import Objective
from service.usecases.questions.fit import FindCorrections
from service.usecases.questions.placement import place_plans
from service.usecases.questions.plans import PlanQuestion, PlanReport, answer_plans

T = TypeVar("T")
MODEL = "llama-3.1-70b"
KINDS = ["A100-SXM4-80GB", "H100-SXM5-80GB", "A100-SXM4-40GB", "H200-SXM5-141GB"]
ROUNDS = 15
MAX_GPUS = 512
BOUNDS = Constraints(max_gpus=MAX_GPUS)
MEASURED = Corrections(
    calibration="of the benchmark",
    instants={
        "forward": InstantCorrection(share=0.001),
        "backward": InstantCorrection(share=0.001),
    },
    relative_error=0.02,
)
"""Corrections of an installation that has measured, here the same for each configuration.

The cost of a calibration's lookup is timed with them.
"""
NUM_NODES, GPUS_PER_NODE = 2000, 8


def time_searches() -> Table:
    """Time full answers and count the work of their searches.

    Candidates are replayed.
    """
    table = Table(
        *(
            "question",
            "p50 ms",
            "p95 ms",
            "first time, ms",
            "layouts",
            "estimated",
            "pruned",
            "GPUs",
        ),
        title="Searches in process, one core",
    )
    trained = TrainRequest(sequence_length=4096)
    served = ServeRequest(
        num_sequences=64, prompt_tokens=1536, output_tokens=512, engine=Engine.VLLM
    )
    for objective in Objective:
        table.add_row(*_time_row(f"train, {objective.value}", _build_request(trained, objective)))
    measured = _build_request(trained, Objective.FEWEST_GPUS)
    table.add_row(
        *_time_row("train, fewest_gpus, all corrected", measured, lambda *_question: MEASURED)
    )
    table.add_row(
        *_time_row("serve on vllm, fewest_gpus", _build_request(served, Objective.FEWEST_GPUS))
    )
    bounded = _build_request(
        served,
        Objective.FEWEST_GPUS,
        Constraints(max_gpus=MAX_GPUS, max_time_per_output_token_s=0.02),
    )
    table.add_row(*_time_row("serve on vllm within 20 ms a token, fewest_gpus", bounded))
    table.add_row(*_time_on_cluster(trained))
    return table


def _time_on_cluster(workload: WorkloadRequest) -> tuple[str, ...]:
    """Time a plan on two thousand nodes of four kinds.

    A third of their GPUs are taken.
    """
    pools = tuple(
        Pool(
            name=f"pool-{kind}",
            gpu=gpu,
            gpus_per_node=GPUS_PER_NODE,
            nodes=tuple(_iter_nodes(kind)),
        )
        for kind, gpu in enumerate(KINDS)
    )
    supply = build_supply(ClusterInventory(pools=pools))
    request = _build_request(workload, Objective.FEWEST_GPUS)
    question = _build_question(request)
    answer = partial(answer_plans, plans=PlanCache())
    ask = partial(
        place_plans,
        question,
        supply,
        answer,
        device_of=resolve_device,
        price_of=lambda _device, pool: pool.price_per_gpu_hour,
    )
    first, _ = _time_call(ask)
    times, placed = zip(*(_time_call(ask) for _ in range(ROUNDS)), strict=True)
    return _format_row(
        f"train on {NUM_NODES:,} nodes of four kinds, fewest_gpus", times, first, placed[0].report
    )


def _iter_nodes(kind: int) -> Iterator[Node]:
    for number in range(NUM_NODES // len(KINDS)):
        yield Node(
            name=f"n{kind}-{number}", allocated_gpus=(number * 7 + kind) % (GPUS_PER_NODE - 2)
        )


def _build_request(
    workload: WorkloadRequest, objective: Objective, bounds: Constraints = BOUNDS
) -> PlanRequest:
    return PlanRequest(
        model=MODEL, workload=workload, gpus=[*KINDS], objective=objective, constraints=bounds
    )


def _time_row(
    title: str, request: PlanRequest, find: FindCorrections | None = None
) -> tuple[str, ...]:
    ask = partial(answer_plans, _build_question(request), plans=PlanCache(), find_corrections=find)
    first, _ = _time_call(ask)
    times, reports = zip(*(_time_call(ask) for _ in range(ROUNDS)), strict=True)
    return _format_row(title, times, first, reports[0])


def _build_question(request: PlanRequest) -> PlanQuestion:
    model = ResolvedModel(architecture=load_architecture(resolve_model(MODEL)))
    return read_plan(request, model, read_prices(request))


def _format_row(
    title: str, times: Sequence[float], first: float, report: PlanReport
) -> tuple[str, ...]:
    offered = report.plans.offer_plans
    searched = [item.plan.searched for item in offered]
    pruned = sum((Counter(item.pruned) for item in searched), Counter[str]())
    return (
        title,
        f"{statistics.median(times):.0f}",
        f"{sorted(times)[len(times) * 95 // 100]:.0f}",
        f"{first:.0f}",
        f"{sum(item.layouts for item in searched):,}",
        f"{sum(item.estimated for item in searched):,}",
        ", ".join(f"{name} {number:,}" for name, number in pruned.most_common()),
        ", ".join(str(item.plan.num_gpus) for item in offered),
    )


def _time_call(ask: Callable[[], T]) -> tuple[float, T]:
    """Return a call's CPU milliseconds and its result.

    CPU time leaves out what else the machine does as far as it can be.
    """
    begin = time.process_time()
    report = ask()
    return (time.process_time() - begin) * 1e3, report
