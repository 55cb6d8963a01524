"""Why a question has no plan, as a person would say it."""

from dataclasses import replace

import pytest

from service.estimator.cache import PlanCache
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Sharding
from service.estimator.values.units import GIB, MIB
from service.estimator.values.workload import Checkpointing, Framework, Offload, OffloadTarget
from service.planner.fit.evaluator import make_evaluator
from service.planner.fit.verdict import missing_bytes
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import Plan
from service.planner.plans.plans import find_plans, plan_offer
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import CHAT, ONE_GPU, SHORT, a_device, a_subject, shallow

REPLICATED = frozenset({"ddp"})


def _plan(question: Question, offer: Offer, *, usable_bytes: int = 80 * GIB) -> Plan:
    subject = a_subject("gpt2", usable_bytes=usable_bytes)
    return (
        find_plans(
            [(replace(offer, device=subject.device), subject)], question, Objective.FEWEST_GPUS
        )
        .offer_plans[0]
        .plan
    )


def _offer(**said: object) -> Offer:
    return replace(Offer(device=a_subject().device), **said)  # type: ignore[arg-type]  # each word has its own type


def test_money_that_ends_before_the_gpus_is_the_reason() -> None:
    """What a budget pays for is named with the price, not the limit of GPUs."""
    question = Question(
        workload=SHORT, layout=ONE_GPU, limits=Limits(max_cost_per_hour=5.0), frameworks=REPLICATED
    )
    plan = _plan(question, _offer(price_per_gpu_hour=4.0), usable_bytes=GIB)

    assert plan.num_gpus is None
    assert plan.reason is not None
    assert plan.reason.startswith(
        "max_cost_per_hour is 5.00 USD, which pays for 1 test at 4.00 USD each"
    )


def test_money_for_no_gpu_at_all_is_an_answer() -> None:
    """A budget below the price of the first GPU is no mistake of the question: nothing is enough,
    and why.
    """
    question = Question(
        workload=SHORT, layout=ONE_GPU, limits=Limits(max_cost_per_hour=0.1), frameworks=REPLICATED
    )
    plan = _plan(question, _offer(price_per_gpu_hour=4.0))

    assert (plan.num_gpus, plan.candidates, plan.searched.layouts) == (None, (), 0)
    assert plan.reason == "max_cost_per_hour is 0.10 USD, and 1 test costs 4.00 USD"


def test_more_replicas_than_a_cluster_has_gpus_is_never() -> None:
    """That a cluster is too small for the replicas is an answer, which counts whole nodes."""
    question = Question(
        workload=replace(CHAT, num_sequences=32),
        layout=ONE_GPU,
        limits=Limits(min_num_sequences=3000),
    )
    plan = _plan(question, _offer(pool="a", max_gpus=24))

    assert plan.num_gpus is None
    assert (
        plan.reason
        == "never: min_num_sequences 3,000 takes 94 replicas, at least 96 GPUs, and there are 24 test"  # noqa: E501
    )


def test_a_layout_that_a_cluster_cannot_hold_is_never() -> None:
    """A pinned layout of more GPUs than there are is an answer on a cluster."""
    layout = replace(ONE_GPU, data_parallel=64)
    question = Question(
        workload=SHORT, layout=layout, fixed=frozenset({"data_parallel"}), frameworks=REPLICATED
    )

    assert (
        _plan(question, _offer(pool="a", max_gpus=40)).reason
        == "never: the layout takes 64 GPUs, and there are 40 test"
    )


def test_a_node_that_is_full_is_told_in_its_own_words() -> None:
    """Where offloaded states find no room on the host, neither instant nor deficit is the GPU's."""
    workload = replace(SHORT, offload=Offload(optimizer=OffloadTarget.CPU))
    layout = replace(ONE_GPU, sharding=Sharding.DEEPSPEED, zero_stage=2, host_memory_bytes=GIB)
    fixed = frozenset({"offload", "sharding", "zero_stage", "data_parallel"})
    question = Question(
        workload=workload, layout=layout, fixed=fixed, frameworks=frozenset({"deepspeed"})
    )
    closest = _plan(question, _offer()).closest

    assert closest is not None
    assert closest.reason.startswith("offloading takes")
    assert (closest.instant, closest.component) == ("offload", "host_memory")
    assert closest.deficit_bytes == closest.nearest.estimate.host_bytes_per_node - GIB


@pytest.mark.parametrize("max_gpus", [1, 2, 4, 8])
def test_the_closest_is_the_nearest_of_all(max_gpus: int) -> None:
    """Where states alone have no room in any layout, none of them lacks less than the one that is
    told.
    """
    model, device = shallow("tinyllama-1.1b", 2), a_device(200 * MIB)
    subject, offer = make_evaluator(model, device, plans=PlanCache()), Offer(device=device)
    question = Question(workload=SHORT, layout=ONE_GPU, limits=Limits(max_gpus=max_gpus))
    search = Search(subject, SearchSpace(model, question, offer))
    plan = plan_offer(offer, search, Objective.FEWEST_GPUS)
    assert plan.closest is not None
    listed = [
        (slot, search.space.list_batches(slot)[0])
        for slot in search.space.list_options(plan.closest.num_gpus)
    ]
    lacking = [
        missing_bytes(
            subject.estimate_numbers(*search.space.build_config(slot, batch)),
            device,
            confident=True,
        )
        for slot, batch in listed
    ]

    assert not search.memory_bounds.list_feasible(plan.closest.num_gpus)
    assert plan.closest.missing_bytes == min(lacking)
    assert plan.closest in plan.rejected


def test_a_framework_that_does_not_shard_so_is_named() -> None:
    """On one GPU nobody shards; that more are of no use is told beside what one lacks, with the
    rule.
    """
    workload = replace(SHORT, framework=Framework.TORCHTITAN)
    layout = replace(ONE_GPU, sharding=Sharding.DEEPSPEED)
    question = Question(
        workload=workload,
        layout=layout,
        fixed=frozenset({"framework", "sharding"}),
        limits=Limits(max_gpus=8),
    )
    device = a_device(GIB)
    subject = make_evaluator(shallow("tinyllama-1.1b", 2), device, plans=PlanCache())
    plan = (
        find_plans([(Offer(device=device), subject)], question, Objective.FEWEST_GPUS)
        .offer_plans[0]
        .plan
    )

    assert plan.num_gpus is None
    assert plan.reason is not None
    assert plan.reason.startswith(
        "max_gpus is 8, and no number up to it is enough; the closest is 1"
    )
    assert plan.reason.endswith(
        "more are of no use: no layout fills 8 GPUs: torchtitan on deepspeed ranks"
    )


def test_a_price_without_a_budget_is_no_reason() -> None:
    """What a GPU costs is told where money is what ends: not where larger numbers have no
    layout.
    """
    question = Question(
        workload=replace(SHORT, micro_batch_size=5, activation_checkpointing=Checkpointing.FULL),
        layout=ONE_GPU,
        fixed=frozenset({"micro_batch_size", "gradient_accumulation_steps"}),
        limits=Limits(max_gpus=8, global_batch_size=10),
        frameworks=REPLICATED,
    )
    plan = _plan(question, _offer(price_per_gpu_hour=4.0), usable_bytes=GIB)

    assert plan.num_gpus is None
    assert plan.reason is not None
    assert "costs" not in plan.reason
    assert (
        "more are of no use: a global batch of 10 cannot be dealt out to 5 data-parallel ranks of 5"
        in plan.reason
    )


@pytest.mark.parametrize(
    ("fixed", "allowed", "said"),
    [
        ({"framework"}, "deepspeed", "framework megatron"),
        ({"sharding"}, "torchtitan", "sharding megatron"),
        ({"zero_stage"}, "fsdp2", "zero_stage 1"),
        ({"zero_stage", "framework"}, "fsdp2", "framework megatron with zero_stage 1"),
    ],
)
def test_ways_that_are_allowed_and_a_way_that_is_fixed_contradict_each_other(
    fixed: set[str], allowed: str, said: str
) -> None:
    """Both words are named: neither is dropped for the other."""
    workload, layout = (
        replace(SHORT, framework=Framework.MEGATRON),
        replace(ONE_GPU, sharding=Sharding.MEGATRON, zero_stage=1, data_parallel=2),
    )
    question = Question(
        workload=workload, layout=layout, fixed=frozenset(fixed), frameworks=frozenset({allowed})
    )

    with pytest.raises(InvalidInputError) as refused:
        _plan(question, _offer())

    assert refused.value.field == "constraints.frameworks"
    assert (
        refused.value.message
        == f"frameworks allows {allowed} alone, and the request fixes {said}: no way to train is both"  # noqa: E501
    )


def test_sequences_that_no_layout_has_room_for_are_told_by_one_layout_each() -> None:
    """What backward needs of the smallest batch is arithmetic: where it has no room nothing is
    estimated but what is told.
    """
    subject = make_evaluator(shallow("tinyllama-1.1b", 2), a_device(80 * GIB))
    question = Question(
        workload=replace(SHORT, sequence_length=500_000_000),
        layout=ONE_GPU,
        limits=Limits(max_gpus=16),
    )
    search = Search(
        subject, SearchSpace(subject.architecture, question, Offer(device=subject.device))
    )
    plan = plan_offer(Offer(device=subject.device), search, Objective.FEWEST_GPUS)

    assert plan.num_gpus is None
    assert len(plan.rejected) == 9
    assert not any(
        search.memory_bounds.list_fitting_batches(slot) for slot in search.space.list_options(16)
    )
    assert search.num_estimated - len(search.space.list_options(plan.rejected[-1].num_gpus)) <= len(
        plan.rejected
    )


def test_what_more_shards_lack_saves_estimates_and_changes_no_reason() -> None:
    """Fewer ranks share the same states in larger parts: what lacks more on more of them is not
    asked again.
    """
    subject = make_evaluator(shallow("tinyllama-1.1b", 2), a_device(3 * GIB), plans=PlanCache())
    question = Question(
        workload=replace(SHORT, sequence_length=16384), layout=ONE_GPU, limits=Limits(max_gpus=8)
    )
    space = SearchSpace(subject.architecture, question, Offer(device=subject.device))
    together, alone = Search(subject, space), [Search(subject, space) for _ in range(8)]
    told = [together.explain_rejection(count) for count in range(8, 0, -1)]

    assert told == [
        search.explain_rejection(count)
        for count, search in zip(range(8, 0, -1), alone, strict=True)
    ]
    assert None not in told
    assert together.num_estimated < sum(search.num_estimated for search in alone) * 0.8
