"""Numbers of GPUs that no layout fills are named with their reason."""

from dataclasses import replace

from service.estimator.workload import Engine, ServeWorkload
from service.planner.how_many import how_many
from service.planner.space import Limits, Question
from tests.unit.planner.builders import LONG, ONE_GPU, an_a100_subject

SERVED = ServeWorkload(engine=Engine.VLLM, num_sequences=32, prompt_tokens=512, output_tokens=64)


def test_fewer_replicas_than_are_asked_for_are_named() -> None:
    """Each number below says how many sequences it serves at most."""
    question = Question(workload=SERVED, layout=ONE_GPU, limits=Limits(min_num_sequences=100))

    plan = how_many(an_a100_subject("llama-2-7b"), question)

    assert plan.num_gpus == 4
    assert [one.num_gpus for one in plan.unfilled] == [1, 2, 3]
    assert plan.unfilled[2].reason == "3 GPUs hold 3 replicas at most, which serve 96 sequences at once, fewer than 100"


def test_numbers_that_divide_neither_model_nor_batch_are_named() -> None:
    """Sixteen sequences cannot be dealt out to three ranks, and nothing but ranks is open."""
    fixed = frozenset({"tensor_parallel", "pipeline_parallel", "context_parallel"})
    question = Question(workload=LONG, layout=ONE_GPU, fixed=fixed, limits=Limits(max_gpus=8, global_batch_size=16))

    plan = how_many(an_a100_subject("llama-2-7b"), question)

    assert plan.num_gpus == 4
    assert [miss.num_gpus for miss in plan.rejected] == [1, 2]
    assert [(one.num_gpus, one.reason) for one in plan.unfilled] == [
        (3, "no legal layout: no degrees and micro batch that fill 3 GPUs make a global batch of 16")
    ]


def test_every_number_below_a_plan_has_a_reason() -> None:
    """Misses and unfilled numbers together are all that is below, each once."""
    question = Question(workload=replace(SERVED, num_sequences=64), layout=ONE_GPU)

    plan = how_many(an_a100_subject("llama-2-70b"), question)

    assert plan.num_gpus is not None
    told = sorted([one.num_gpus for one in plan.unfilled] + [miss.num_gpus for miss in plan.rejected])
    assert told == list(range(1, plan.num_gpus))
