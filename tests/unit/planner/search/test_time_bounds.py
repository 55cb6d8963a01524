"""Limits of time come before memory: of what cannot keep them nothing is estimated, and nothing
that keeps them is lost.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from service.estimator.cache import PlanCache
from service.estimator.values.corrections import Corrections
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import TrainWorkload, Workload
from service.planner.fit.evaluator import Evaluator, make_evaluator
from service.planner.fit.fit import assess_fit
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import Plan
from service.planner.plans.plans import plan_offer
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Limits, Question
from service.planner.search.step_times import StepTimes
from service.planner.search.time_limits import compute_excess
from tests.unit.planner.builders import a_device
from tests.unit.planner.plans.test_against_brute_force import (
    LEGALITY,
    MODEL,
    everything,
    optimum_of,
    random_case,
)

SEED, NUM_QUESTIONS = 20261122, 40
RUN = TrainWorkload(sequence_length=512, num_tokens=10**9)
PLANS = PlanCache(capacity=4096)


def _search(subject: Evaluator, question: Question) -> Search:
    return Search(subject, SearchSpace(MODEL, question, Offer(device=subject.device)))


@pytest.mark.parametrize("objective", [Objective.FEWEST_GPUS, Objective.FASTEST])
@pytest.mark.parametrize(
    "limits",
    [Limits(max_step_time_s=1e-5), Limits(max_hours=1e-6), Limits(min_tokens_per_second=1e12)],
    ids=["step", "run", "rate"],
)
def test_what_cannot_be_in_time_is_hardly_estimated(limits: Limits, objective: Objective) -> None:
    """A limit that no layout keeps takes no replay, and few numbers: those that tell of each number
    why it is too slow.
    """
    asked: Counter[str] = Counter()

    def counted(workload: Workload, layout: Layout, answer: str = "replayed") -> Estimate:
        asked[answer] += 1
        return plain.answer(workload, layout)

    plain = make_evaluator(MODEL, a_device(40 * 2**30), plans=PLANS)
    search = _search(
        replace(plain, replayed=counted),
        Question(workload=RUN, layout=Layout(), limits=replace(limits, max_gpus=32)),
    )
    plan = plan_offer(Offer(device=plain.device), search, objective)

    assert plan.num_gpus is None
    assert len(plan.rejected) == len(search.space.counts)
    assert all(miss.reason.startswith("fits, but ") for miss in plan.rejected)
    assert not asked["replayed"]
    assert search.num_estimated < 10 * len(plan.rejected) < plan.searched.layouts / 10
    if objective is Objective.FEWEST_GPUS and limits.max_step_time_s is None:
        # Arithmetic tells of every number, whose splits are counted and layouts are not listed.
        splits = sum(map(search.space.count_divisions, search.space.counts))
        assert plan.searched.pruned == {"arithmetic_alone": splits}
    else:
        assert plan.searched.pruned["time_alone"] > plan.searched.layouts / 3


def test_no_step_is_shorter_than_its_bound() -> None:
    """Neither of a configuration nor of its slot, with optimizers that have more states, fewer, or
    none.
    """
    random, limits = Random(SEED), Limits(max_gpus=16, max_step_time_s=1.0, max_hours=1.0)  # noqa: S311 - questions, not secrets
    subject = make_evaluator(MODEL, a_device(2**40), plans=PLANS)
    for optimizer in ("adamw", "sgd", "adamw_8bit"):
        question = Question(
            workload=replace(RUN, optimizer=optimizer), layout=Layout(), limits=limits
        )
        space = SearchSpace(MODEL, question, Offer(device=subject.device))
        bounds = StepTimes(subject, space).bounds
        assert bounds is not None
        for slot in random.sample(
            [slot for number in space.counts for slot in space.list_options(number)], 40
        ):
            batch = random.choice(space.list_batches(slot))
            config = space.build_config(slot, batch)
            with suppress(EstimatorError):
                took = compute_excess(
                    limits,
                    config[0],
                    subject.get_throughput(*config, subject.estimate_numbers(*config)),  # type: ignore[arg-type]  # this GPU is timed
                )

                assert bounds.get_min_excess(slot) <= bounds.get_excess(
                    slot, batch, state_bytes=0
                ) * (1 + 1e-9)
                assert bounds.get_excess(slot, batch, state_bytes=0) <= took * (1 + 1e-9)


def test_what_was_measured_to_be_faster_is_not_left_out() -> None:
    """No analytic step keeps the limit, and every measured one does."""

    def plan_within(limits: Limits, ratio: float) -> Plan:
        learnt = Corrections(calibration="c", step_time_ratio=ratio)
        subject = make_evaluator(
            MODEL,
            a_device(40 * 2**30),
            plans=PLANS,
            corrections_for=lambda _workload, _layout: learnt,
            time_floor=ratio,
        )
        question = Question(workload=RUN, layout=Layout(), limits=limits)
        return plan_offer(
            Offer(device=subject.device), _search(subject, question), Objective.FASTEST
        )

    fastest = plan_within(Limits(max_gpus=4), 1.0).candidates[0].throughput
    assert fastest is not None
    limits = Limits(max_gpus=4, min_tokens_per_second=1.5 * fastest.tokens_per_second)

    assert plan_within(limits, 1.0).num_gpus is None
    assert plan_within(limits, 0.5).num_gpus == 4


def _limited(random: Random) -> tuple[Question, int]:
    """Return a random question with a limit of time that about half of its layouts keep, and its
    GPU's memory.
    """
    case = random_case(random)
    assert isinstance(case.question.workload, TrainWorkload)
    workload = replace(case.question.workload, num_tokens=10**9)
    step, hours = random.uniform(0.02, 0.3), random.uniform(1, 16)
    chosen = random.choice(
        [
            {"max_step_time_s": step},
            {"max_hours": hours},
            {"min_tokens_per_second": 10**9 / hours / 3600},
        ],
    )
    limits = replace(case.question.limits, **chosen)  # type: ignore[arg-type]  # each is a limit of time
    return replace(case.question, workload=workload, limits=limits), case.usable_bytes


def _learn(workload: Workload, layout: Layout) -> Corrections:
    """Return times of jobs like one, some of which take half as long and some twice."""
    assert isinstance(workload, TrainWorkload)
    key = layout.num_gpus, layout.tensor_parallel, workload.activation_checkpointing
    ratio = (0.5, 0.6, 1.0, 2.0)[hash_text(str(key)) % 4]
    return Corrections(calibration="c", step_time_ratio=ratio)


def hash_text(text: str) -> int:
    """Return a number that is the same in every process."""
    return sum(index * ord(letter) for index, letter in enumerate(text, start=1))


@pytest.mark.parametrize(("learns", "num_questions"), [(False, NUM_QUESTIONS), (True, 24)])
def test_within_a_limit_of_time_plans_are_the_optimum(*, learns: bool, num_questions: int) -> None:
    """Every legal configuration is timed and answered in full: no smaller number has room and is in
    time, but once in 40. What measurements say of a time decides, as it does in a fit.
    """
    random = Random(SEED)  # noqa: S311 - questions, not secrets
    found: list[tuple[float | None, float | None]] = []
    for _ in range(num_questions):
        question, usable = _limited(random)
        subject = make_evaluator(MODEL, a_device(usable), plans=PLANS)
        if learns:
            subject = make_evaluator(
                MODEL, a_device(usable), plans=PLANS, corrections_for=_learn, time_floor=0.5
            )
        in_time = StepTimes(
            subject, SearchSpace(MODEL, question, Offer(device=subject.device))
        ).is_in_time
        configs = []
        for config in everything(question):
            with suppress(EstimatorError):
                if LEGALITY.find_violation(*config) is None and in_time(
                    config[0], subject.get_throughput(*config, subject.estimate_numbers(*config))
                ):
                    configs.append(config)
        optimum = optimum_of(subject, question, LEGALITY, configs, fastest=False)
        try:
            plan = plan_offer(
                Offer(device=subject.device), _search(subject, question), Objective.FEWEST_GPUS
            )
        except EstimatorError:
            found.append((None, optimum))
        else:
            found.append((plan.num_gpus, optimum))
            for candidate in plan.candidates:
                shown = assess_fit(subject, candidate.workload, candidate.layout).throughput
                assert candidate.throughput == shown

    assert all(
        number is None or (optimum is not None and number >= optimum) for number, optimum in found
    )
    assert (
        sum(number == optimum for number, optimum in found) >= num_questions - 1
    )  # as without limits: 99 of 100 and more
    assert sum(optimum is not None for _, optimum in found) > num_questions / 4
    assert sum(optimum is None for _, optimum in found) > num_questions / 8


def test_an_option_that_is_closed_on_the_way_comes_no_more() -> None:
    """Of each the fastest batch is yielded, and nothing after it was ruled out."""
    question = Question(workload=RUN, layout=Layout(), limits=Limits(max_gpus=8))
    subject = make_evaluator(MODEL, a_device(10**11), plans=PLANS)
    space = SearchSpace(MODEL, question, Offer(device=subject.device))
    options, closed = space.list_options(8), []

    timed = StepTimes(subject, space).iter_by_time(
        options, space.list_batches, is_open=lambda option: option not in closed
    )
    for _, option, _ in timed:
        closed.append(option)

    assert max(len(space.list_batches(option)) for option in options) > 1
    assert Counter(closed) == Counter(options)
