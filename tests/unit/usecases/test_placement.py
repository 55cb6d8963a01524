"""A plan on a cluster runs on its nodes today, or says who is in its way, or that it never will."""

from dataclasses import replace
from functools import partial

import pytest

from service.base.errors import InvalidRequestError
from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Framework, TrainWorkload
from service.formats.renderings.job import JobNames
from service.planner.cluster.inventory import Allocation, ClusterInventory, Node, Pool
from service.planner.cluster.offers import JOINT, list_current_offers, list_empty_offers
from service.planner.cluster.placement import Blocked, Impossible, Placement, build_supply
from service.planner.plans.objectives import Objective
from service.planner.search.search_space import Question
from service.usecases.questions.placement import PlacedReport, place_plans
from service.usecases.questions.plans import PlanQuestion, answer_plans

FIXED = frozenset({"sequence_length", "framework"})
WORKLOAD = TrainWorkload(sequence_length=2048)
ASKED = PlanQuestion(
    architecture=load_architecture(resolve_model("llama-2-7b")),
    names=JobNames(model_name="llama-2-7b"),
    question=Question(workload=WORKLOAD, layout=Layout(), fixed=FIXED),
    offers=(),
    objective=Objective.FEWEST_GPUS,
)


def pool(*free: int, name: str = "p", gpu: str = "A100-SXM4-80GB", **changes: object) -> Pool:
    """Build a pool of eight-GPU nodes of which so many GPUs are free, the rest used by vision."""
    nodes = tuple(
        Node(
            name=f"{name}{number}",
            allocated_gpus=8 - left,
            allocations=(Allocation(holder="vision", num_gpus=8 - left),),
        )
        for number, left in enumerate(free)
    )
    return replace(Pool(name=name, gpu=gpu, gpus_per_node=8, nodes=nodes), **changes)  # type: ignore[arg-type]  # each test says what it changes


def planned(*pools: Pool, asked: PlanQuestion = ASKED) -> PlacedReport:
    """Plan on a cluster of these pools."""
    return place_plans(
        asked,
        build_supply(ClusterInventory(pools=pools)),
        partial(answer_plans, plans=PlanCache()),
        device_of=lambda name: resolve_gpu(name).to_device(),
        price_of=lambda _device, found: found.price_per_gpu_hour,
    )


def test_a_plan_names_its_nodes() -> None:
    """The best plan has a placement with exactly its GPUs, on nodes that have them."""
    found = planned(pool(8, 3, 8))
    first, (candidate, _) = found.placements[0], found.report.fits[0]

    assert isinstance(first, Placement)
    assert first.num_gpus == candidate.num_gpus > 1
    assert len(found.placements) == len(found.report.fits)


def test_the_kind_that_has_room_today_wins() -> None:
    """A plan that finds its GPUs scattered gives way to one on other GPUs that are together."""
    workload = replace(WORKLOAD, framework=Framework.MEGATRON)
    fixed = FIXED | {"tensor_parallel"}
    question = Question(workload=workload, layout=Layout(tensor_parallel=4), fixed=fixed)
    found = planned(
        pool(2, 2, name="h", gpu="H200-SXM5-141GB"),
        pool(8, name="a"),
        asked=replace(ASKED, question=question),
    )
    scattered, together = found.report.plans.offer_plans

    assert isinstance(found.placements[0], Placement)
    assert found.report.plans.best is together
    assert scattered.offer.device.name == "H200-SXM5-141GB"
    assert scattered.plan.num_gpus is None
    assert scattered.plan.reason is not None
    assert scattered.plan.reason.startswith("its best plan takes 4, which do not run there today: ")
    assert {seat.share.pool for seat in found.placements[0].assignments} == {"a"}


def test_scattered_gpus_are_offered_in_even_numbers() -> None:
    """Of three and two GPUs that are left, the fastest plan takes two of each, because launchers
    want equally many.
    """
    fastest = planned(pool(3, 2), asked=replace(ASKED, objective=Objective.FASTEST))
    first = fastest.placements[0]

    assert isinstance(first, Placement)
    assert [seat.share.num_gpus for seat in first.assignments] == [2, 2]


def test_a_full_cluster_says_who_is_on_it() -> None:
    """The plan is that of the empty cluster, and its placement says what is free and who holds the
    rest.
    """
    found = planned(pool(1, 0))

    assert found.report.plans.best is not None
    assert isinstance(found.placements[0], Blocked)
    assert "1 of 16 A100-SXM4-80GB is free" in found.placements[0].reason
    assert "used by vision (15)" in found.placements[0].reason


def test_what_no_node_can_hold_never_runs() -> None:
    """Pinned tensor parallelism over more GPUs than an island has is told before anything is
    searched for nothing.
    """
    fixed = replace(
        ASKED.question, layout=Layout(tensor_parallel=8), fixed=FIXED | {"tensor_parallel"}
    )
    islands = pool(8, 8, nvlink_island_size=4)
    asked = replace(ASKED, question=fixed)

    outcomes = {type(one) for one in planned(islands, asked=asked).placements}

    assert outcomes <= {Impossible}


def test_a_cluster_without_gpus_is_refused() -> None:
    """There is nothing to plan with."""
    with pytest.raises(InvalidRequestError, match="no whole GPU"):
        planned(pool())


def test_pools_of_one_kind_are_one_offer() -> None:
    """Their GPUs count together, today what is free of them and in the end all."""
    supply = build_supply(
        ClusterInventory(
            pools=(
                pool(8, 0, name="a"),
                pool(3, name="b"),
                pool(8, name="c", gpu="H200-SXM5-141GB"),
            ),
        ),
    )
    device_of = lambda name: resolve_gpu(name).to_device()  # noqa: E731 - two lines below are its only callers
    today = list_current_offers(supply, device_of, lambda _device, _pool: None, together=True)
    empty = list_empty_offers(supply, device_of, lambda _device, _pool: None)

    assert [(offer.pool, offer.max_gpus) for offer in today] == [(f"a{JOINT}b", 11), ("c", 8)]
    assert [sorted(offer.counts or ()) for offer in today] == [
        [1, 2, 3, 4, 5, 6, 7, 8],
        [1, 2, 3, 4, 5, 6, 7, 8],
    ]
    assert [(offer.pool, offer.max_gpus) for offer in empty] == [(f"a{JOINT}b", 24), ("c", 8)]
