"""The planner's verdicts, held against what the estimator answers."""

from service.catalog.gpus import resolve_gpu
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.rules.violations import find_violation
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.result import Detail
from service.estimator.values.workload import Framework, TrainWorkload, Workload
from tests.unit.planner.samples import Configuration, model, servings, trainings

H100 = resolve_gpu("H100-SXM5-80GB").to_device()


def is_answered(configuration: Configuration, plans: PlanCache) -> bool:
    """Return whether the estimator answers."""
    architecture, workload, layout = configuration
    numbers = Detail.NUMBERS
    try:
        estimate(architecture, workload, layout=layout, device=H100, plans=plans, detail=numbers)
    except EstimatorError:
        return False
    return True


def test_what_no_rule_forbids_is_answered_and_what_one_for_both_forbids_is_not() -> None:
    """On thousands of configurations only rules that are the planner's alone forbid an answer."""
    plans = PlanCache()
    cases = [*trainings(11, 3600), *servings(12, 1500)]
    judged = [(case, find_violation(*case), is_answered(case, plans)) for case in cases]

    assert [case for case, violation, answered in judged if not (violation or answered)] == []
    stricter = [violation.rule for _, violation, answered in judged if violation and answered]
    assert [rule for rule in stricter if rule.refusal is not None] == []
    assert sum(violation is None for _, violation, _ in judged) > 300


def list_degrees(workload: Workload, sharding: Sharding, stage: int, most: int) -> list[int]:
    """Return the tensor-parallel degrees up to ``most`` that 64 heads allow."""
    seventy = model("llama-2-70b")
    layouts = {
        ranks: Layout(tensor_parallel=ranks, sharding=sharding, zero_stage=stage)
        for ranks in range(1, most + 1)
    }
    return [
        ranks for ranks, layout in layouts.items() if not find_violation(seventy, workload, layout)
    ]


def test_degrees_are_those_that_the_heads_allow() -> None:
    """64 heads, 8 of keys and values: Megatron repeats those, transformers does not."""
    megatron = TrainWorkload(sequence_length=4096, framework=Framework.MEGATRON)
    hugging = TrainWorkload(sequence_length=512)

    assert list_degrees(megatron, Sharding.MEGATRON, 0, 64) == [1, 2, 4, 8, 16, 32, 64]
    assert list_degrees(hugging, Sharding.FSDP2, 3, 64) == [1, 2, 4, 8]
