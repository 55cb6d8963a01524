"""The fewest GPUs: exact, kept to the request, and explained."""

import re
from dataclasses import replace

import pytest

from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.units import GIB
from service.estimator.values.workload import Checkpointing, ServeWorkload, TrainWorkload, Workload
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.verdict import Verdict
from service.planner.plans.how_many import find_fewest_gpus
from service.planner.plans.offered import Plan
from service.planner.plans.plans import MAX_CANDIDATES
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import CHAT, LONG, ONE_GPU, SHORT, a_subject, an_a100_subject

SMALL = Limits(max_gpus=32)
REPLICATED = frozenset({"ddp", "deepspeed"})
"""Ways that split no layer."""
BATCHES = replace(SHORT, micro_batch_size=8)


def find_plan(
    subject: Evaluator, workload: Workload, layout: Layout = ONE_GPU, **rest: object
) -> Plan:
    """Search for the fewest GPUs of a subject that hold a workload."""
    return find_fewest_gpus(subject, Question(workload=workload, layout=layout, **rest))  # type: ignore[arg-type]  # named by the caller


def test_7b_full_fine_tuning_on_a100s() -> None:
    """One holds not even the states; two are tight where states are sharded, and enough once they
    split the tensors.
    """
    sharded = find_plan(
        an_a100_subject("llama-2-7b"),
        LONG,
        fixed=frozenset({"tensor_parallel"}),
        frameworks=frozenset({"fsdp2"}),
    )

    assert sharded.num_gpus == 3
    assert [miss.num_gpus for miss in sharded.rejected] == [1, 2]
    assert "optimizer" in sharded.rejected[0].reason
    assert sharded.rejected[0].missing_bytes > sharded.rejected[0].deficit_bytes > 0
    assert "would be tight" in sharded.rejected[1].reason
    assert sharded.rejected[1].missing_bytes > sharded.rejected[1].deficit_bytes == 0
    assert find_plan(an_a100_subject("llama-2-7b"), LONG).num_gpus == 2


def test_a_replay_that_fails_on_more_gpus_rules_out_no_fewer() -> None:
    """What an allocator reserves of uneven shards may be less in fewer of them."""
    plan = find_plan(
        a_subject("llama-3.1-405b", usable_bytes=72 * GIB),
        TrainWorkload(
            sequence_length=4096,
            micro_batch_size=1,
            activation_checkpointing=Checkpointing.FULL,
        ),
        Layout(tensor_parallel=4, sharding=Sharding.FSDP2, zero_stage=3),
        fixed=frozenset(
            {"micro_batch_size", "activation_checkpointing", "tensor_parallel"}
            | {"pipeline_parallel", "context_parallel", "sharding", "zero_stage"}
        ),
        frameworks=frozenset({"fsdp2"}),
        limits=Limits(max_gpus=312),
    )

    assert plan.num_gpus == 280


def test_70b_takes_whole_nodes() -> None:
    """The states of 70B take more than two nodes of eight; the answer is a multiple of the node."""
    plan = find_plan(an_a100_subject("llama-2-70b"), LONG)

    assert plan.num_gpus == 24
    assert re.match(
        r"optimizer states alone need 1(28|29)\.\d+ GiB per GPU of 79.15 GiB usable",
        plan.rejected[3].reason,
    )
    assert plan.rejected[3].component == "optimizer_states"
    assert plan.searched.estimated < 10 * len(plan.rejected)
    assert plan.searched.estimated < plan.searched.layouts / 50
    assert plan.searched.pruned["states_alone"] > 0


def test_candidates_are_ordered_by_time() -> None:
    """The fastest first; among equally fast ones no recomputing and the lower stage."""
    subject = an_a100_subject("llama-2-7b")
    plan = find_plan(
        subject,
        LONG,
        limits=Limits(confidence=None),
        fixed=frozenset({"data_parallel"}),
        layout=Layout(data_parallel=8),
    )

    times = [
        1 / candidate.throughput.tokens_per_second
        for candidate in plan.candidates
        if candidate.throughput is not None
    ]
    assert times == sorted(times)
    assert times == pytest.approx([candidate.seconds_per_token for candidate in plan.candidates])
    assert 1 < len(times) <= MAX_CANDIDATES


def test_what_the_request_fixes_is_kept_to_the_letter() -> None:
    """Stage, sharding, checkpointing, micro batch and ranks stay as they were asked."""
    layout = Layout(data_parallel=16, zero_stage=2, sharding=Sharding.DEEPSPEED)
    workload = replace(LONG, micro_batch_size=2, activation_checkpointing=Checkpointing.FULL)
    fixed = frozenset(
        {"data_parallel", "zero_stage", "sharding", "activation_checkpointing", "micro_batch_size"}
    )

    (candidate,) = find_plan(
        an_a100_subject("llama-2-7b"), workload, layout, fixed=fixed
    ).candidates

    assert (candidate.workload, candidate.layout) == (workload, layout)


def test_nothing_is_enough() -> None:
    """No number, but the reason, the closest miss and the smallest change that would help."""
    subject = a_subject("gpt2", usable_bytes=4 * GIB)
    workload = replace(SHORT, micro_batch_size=64)
    fixed = frozenset({"micro_batch_size", "activation_checkpointing"})
    plan = find_plan(subject, workload, limits=SMALL, fixed=fixed, frameworks=REPLICATED)

    assert plan.num_gpus is None
    assert plan.candidates == ()
    assert plan.closest is not None
    assert plan.closest.missing_bytes == min(miss.missing_bytes for miss in plan.rejected)
    assert plan.reason is not None
    assert plan.reason.startswith("max_gpus is 32, and no number up to it is enough")
    assert plan.smallest_change is not None
    assert plan.smallest_change.verdict is Verdict.FITS
    assert plan.smallest_change.num_gpus <= 32


def test_a_fixed_number_of_gpus_that_is_too_small_says_so() -> None:
    """The reason names the number that the request fixes."""
    plan = find_plan(
        an_a100_subject("llama-2-13b"),
        LONG,
        Layout(data_parallel=2),
        fixed=frozenset({"data_parallel", "context_parallel"}),
        frameworks=REPLICATED,
    )

    assert plan.num_gpus is None
    assert plan.reason is not None
    assert plan.reason.startswith("2 GPUs are too few")


def test_a_limit_of_one_gpu_is_not_called_a_fixed_number() -> None:
    """What limits is ``max_gpus``: the request leaves the number open."""
    plan = find_plan(an_a100_subject("llama-2-7b"), LONG, limits=Limits(max_gpus=1))

    assert plan.num_gpus is None
    assert plan.reason is not None
    assert plan.reason.startswith(
        "max_gpus is 1, and no number up to it is enough; the closest is 1"
    )


def test_a_global_batch_is_kept() -> None:
    """Numbers of GPUs that cannot make it are not tried, and are counted."""
    plan = find_plan(a_subject("gpt2"), SHORT, limits=Limits(max_gpus=8, global_batch_size=12))

    assert plan.num_gpus == 1
    for candidate in plan.candidates:
        workload = candidate.workload
        assert isinstance(workload, TrainWorkload)
        assert (
            workload.micro_batch_size
            * workload.gradient_accumulation_steps
            * candidate.layout.data_parallel
            == 12
        )


def test_a_global_batch_that_nothing_makes_is_refused() -> None:
    """Seven sequences cannot be cut into micro batches of two."""
    with pytest.raises(InvalidInputError, match="global batch of 7"):
        find_plan(
            a_subject("gpt2"),
            BATCHES,
            fixed=frozenset({"micro_batch_size"}),
            limits=Limits(global_batch_size=7),
        )


def test_a_layout_beyond_the_limit_is_refused() -> None:
    """The layout alone takes more GPUs than are allowed."""
    with pytest.raises(InvalidInputError, match="takes at least 16 GPUs, but max_gpus is 8"):
        find_plan(
            a_subject("gpt2"),
            SHORT,
            Layout(data_parallel=16),
            fixed=frozenset({"data_parallel"}),
            limits=Limits(max_gpus=8),
        )


def test_what_has_no_term_is_refused() -> None:
    """Where no configuration has an answer, the estimator's refusal is the answer."""
    with pytest.raises(NotModelledError, match="tensor_parallel"):
        find_plan(
            a_subject("gpt2"),
            SHORT,
            Layout(tensor_parallel=2),
            limits=SMALL,
            fixed=frozenset({"tensor_parallel", "framework"}),
        )


@pytest.mark.parametrize(("model", "expected"), [("llama-2-7b", 1), ("llama-2-70b", 4)])
def test_serving_takes_as_few_gpus_as_hold_one_replica(model: str, expected: int) -> None:
    """Transformers splits a model by tensors where one GPU is too small."""
    plan = find_plan(an_a100_subject(model), CHAT)

    assert plan.num_gpus == expected


def test_a_replica_that_fits_nowhere_is_told_that_more_of_them_do_not_help() -> None:
    """One GPU is too small, and a second one is not allowed."""
    plan = find_plan(an_a100_subject("llama-2-70b"), CHAT, limits=Limits(max_gpus=1))

    assert plan.reason is not None
    assert "weights alone need 128.48 GiB" in plan.reason
    assert plan.reason.endswith("more replicas do not shrink it")


def test_an_engine_that_spreads_the_weights_is_named() -> None:
    """Transformers has no plan for DeepSeek V2 over tensor ranks; two engines have."""
    plan = find_plan(a_subject("deepseek-v2-lite", usable_bytes=24 * 2**30), CHAT)

    assert plan.num_gpus is None
    assert plan.reason is not None
    assert plan.reason.endswith("; engine vllm or sglang spreads its weights")


def test_serving_fewer_sequences_may_be_what_helps() -> None:
    """The smallest change is found for serving as well."""
    workload = ServeWorkload(num_sequences=512, prompt_tokens=2048)
    plan = find_plan(an_a100_subject("llama-2-7b"), workload)

    assert plan.num_gpus is None
    assert plan.smallest_change is not None
    assert set(plan.smallest_change.change) == {"num_sequences"}
