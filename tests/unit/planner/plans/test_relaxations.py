"""The smallest change to a question that has no plan is searched on the model itself."""

from dataclasses import replace

from service.estimator.values.batches import Evaluation
from service.estimator.values.losses import Loss
from service.estimator.values.units import GIB
from service.estimator.values.workload import TrainWorkload
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.remedy import Remedy
from service.planner.fit.verdict import Verdict
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import Plan
from service.planner.plans.plans import find_plans
from service.planner.remedies.other_gpus import OtherGpus, list_no_other_gpus
from service.planner.search.offer import Offer
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import ONE_GPU, SHORT, a_subject

PLAIN = frozenset({"optimizer", "activation_checkpointing", "micro_batch_size", "offload", "loss"})
SHARDED = frozenset({"fsdp2"})
SMALL = 40 * GIB


def _plan(
    limits: Limits, *, larger: OtherGpus = list_no_other_gpus, price: float | None = None
) -> Plan:
    subject = a_subject("llama-2-7b", usable_bytes=SMALL)
    question = Question(
        workload=SHORT,
        layout=replace(ONE_GPU, host_memory_bytes=1),
        limits=limits,
        fixed=PLAIN,
        frameworks=SHARDED,
    )
    offer = Offer(device=subject.device, price_per_gpu_hour=price)
    return (
        find_plans([(offer, subject)], question, Objective.FEWEST_GPUS, larger_gpus=larger)
        .offer_plans[0]
        .plan
    )


def _helps(plan: Plan) -> Remedy:
    assert plan.num_gpus is None
    assert plan.smallest_change is not None
    assert plan.smallest_change.verdict is Verdict.FITS
    return plan.smallest_change


def test_a_limit_of_gpus_is_raised_to_what_the_search_finds() -> None:
    """The number that a change names is the one that a search without the limit answers."""
    unlimited = _plan(Limits())
    helps = _helps(_plan(Limits(max_gpus=1)))

    assert helps.change == {"max_gpus": unlimited.num_gpus}
    assert helps.num_gpus == unlimited.num_gpus


def test_a_budget_is_raised_to_what_as_many_gpus_cost() -> None:
    """Where money ends the search, the change says how much it takes."""
    helps = _helps(_plan(Limits(max_cost_per_hour=2.5), price=2.0))

    assert helps.change == {"max_cost_per_hour": helps.num_gpus * 2.0}


def test_the_next_larger_gpu_comes_before_more_gpus() -> None:
    """The first larger GPU on which the question has a plan is named, those that are too small
    still are not.
    """
    sizes = {f"of {size}": size * GIB for size in (41, 200, 300)}

    def larger(_device: object) -> tuple[Evaluator, ...]:
        found = []
        for name, size in sizes.items():
            subject = a_subject("llama-2-7b", usable_bytes=size)
            found.append(replace(subject, device=replace(subject.device, name=name)))
        return tuple(found)

    assert _helps(_plan(Limits(max_gpus=1), larger=larger)).change == {"gpus": ["of 200"]}


def test_a_change_of_the_job_comes_with_the_fewest_gpus_that_it_allows() -> None:
    """More GPUs divide no evaluated batch: without the change each number lacks as much."""
    subject = a_subject("gpt2", usable_bytes=SMALL)
    evaluation = Evaluation(batch_size=512, loss=Loss.FULL_LOGITS)
    question = Question(workload=replace(SHORT, evaluation=evaluation), layout=ONE_GPU, fixed=PLAIN)
    offer = Offer(device=subject.device)
    plans = find_plans([(offer, subject)], question, Objective.FEWEST_GPUS)
    helps = _helps(plans.offer_plans[0].plan)
    assert isinstance(helps.workload, TrainWorkload)
    changed = replace(question, workload=replace(SHORT, evaluation=helps.workload.evaluation))
    again = find_plans([(offer, subject)], changed, Objective.FEWEST_GPUS)

    assert helps.workload.evaluation is not None
    batch = {"batch_size": helps.workload.evaluation.batch_size}
    assert helps.change == {"evaluation": batch | {"loss": "full_logits"}}
    assert helps.num_gpus == again.offer_plans[0].plan.num_gpus == 1
