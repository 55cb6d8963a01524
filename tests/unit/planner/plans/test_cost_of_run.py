"""What is cheapest: the GPU hours of a run where its tokens are said, else an hour."""

from dataclasses import replace

from service.planner.plans.objectives import Objective
from service.planner.plans.offered import Plans
from service.planner.plans.plans import find_plans
from service.planner.plans.winners import WORTHWHILE
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import ONE_GPU, SHORT, a_subject

SUBJECT = a_subject("gpt2")
QUESTION = Question(
    workload=SHORT, layout=ONE_GPU, limits=Limits(max_gpus=4), frameworks=frozenset({"ddp"})
)
RUN = replace(QUESTION, workload=replace(SHORT, num_tokens=10**9))


def _plans(question: Question) -> Plans:
    slow = replace(
        SUBJECT.device,
        name="slow",
        peak_flops={kind: rate // 4 for kind, rate in SUBJECT.device.peak_flops.items()},
    )
    slower = replace(a_subject("gpt2"), device=slow)
    offers = [
        (Offer(device=slow, price_per_gpu_hour=1.0), slower),
        (Offer(device=SUBJECT.device, price_per_gpu_hour=1.5), SUBJECT),
    ]
    return find_plans(offers, question, Objective.CHEAPEST)


def test_a_dearer_gpu_that_is_done_sooner_is_the_cheaper_run() -> None:
    """By the hour the slow GPU is cheaper; for a billion tokens the fast one is."""
    by_hour, by_run = _plans(QUESTION).best, _plans(RUN).best

    assert by_hour is not None
    assert by_run is not None
    assert (by_hour.offer.device.name, by_run.offer.device.name) == ("slow", "test")
    assert by_hour.compute_run_cost(by_hour.plan.candidates[0]) is None


def test_no_number_of_gpus_costs_less_than_the_cheapest_run() -> None:
    """Against the fastest on every number of GPUs, within the hundredth that more GPUs must
    save.
    """
    found = next(one for one in _plans(RUN).offer_plans if one.offer.device.name == "test")
    search = Search(SUBJECT, SearchSpace(SUBJECT.architecture, RUN, found.offer))
    costs = [
        found.compute_run_cost(candidate)
        for count in (1, 2, 3, 4)
        for candidate in search.iter_best(count)
    ]

    cost = found.compute_run_cost(found.plan.candidates[0])

    assert cost is not None
    assert cost * WORTHWHILE <= min(each for each in costs if each is not None)
