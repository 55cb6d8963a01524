"""No legal layout of the same GPUs beats a plan: over seeded random questions everything on the
plan's number of GPUs is listed, apart from the search, and the fastest that fits is no faster.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from random import Random

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.rules.violations import Legality
from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.units import MIB
from service.estimator.values.workload import Checkpointing, Engine, ServeWorkload, TrainWorkload
from service.planner.fit.candidates import Candidate
from service.planner.fit.evaluator import Evaluator, make_evaluator
from service.planner.plans.objectives import Objective
from service.planner.plans.plans import plan_offer
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import a_device, shallow
from tests.unit.planner.plans.test_against_brute_force import (
    MODEL,
    Case,
    everything,
    optimum_of,
    random_case,
)

SEED = 20261123
NUM_TRAINED, NUM_SERVED = 150, 60
EQUAL = 1 + 1e-5
"""Times of six equal figures are equal: then the simpler layout is taken."""
DENSE, ROUTED = MODEL, shallow("mixtral-8x7b", 2)
Configurations = Iterator[tuple[ServeWorkload, Layout]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A plan, and the least seconds per token of all that fits on as many GPUs."""

    candidate: Candidate
    optimum: float | None


def find_best(subject: Evaluator, question: Question, objective: Objective) -> Candidate | None:
    """Return the plan's first candidate."""
    offer = Offer(device=subject.device, price_per_gpu_hour=2.0)
    search = Search(subject, SearchSpace(subject.architecture, question, offer))
    try:
        plan = plan_offer(offer, search, objective)
    except EstimatorError:
        return None
    return plan.candidates[0] if plan.candidates else None


def ask_to_train(case: Case, plans: PlanCache) -> Outcome | None:
    """Return a plan of training beside the fastest on its number of GPUs."""
    subject = make_evaluator(MODEL, a_device(case.usable_bytes), plans=plans)
    best = find_best(subject, case.question, case.objective)
    if best is None:
        return None
    rivals = (config for config in everything(case.question) if config[1].num_gpus == best.num_gpus)
    optimum = optimum_of(subject, case.question, Legality(MODEL), rivals, fastest=True)
    return Outcome(candidate=best, optimum=optimum)


def random_load(random: Random) -> tuple[Architecture, ServeWorkload, int]:
    """Return what is served, and the memory of each GPU."""
    engine = random.choice([Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM, Engine.TRANSFORMERS])
    pooled = engine is not Engine.TRANSFORMERS
    workload = ServeWorkload(
        engine=engine,
        num_sequences=random.choice([8, 64, 512] if pooled else [1, 16, 64]),
        prompt_tokens=random.choice([256, 1024]),
        output_tokens=random.choice([64, 512]),
        max_model_len=2048 if pooled else None,
    )
    routed = random.random() < 0.4
    usable_gib = random.uniform(6, 20) if pooled else random.uniform(2, 8)
    return ROUTED if routed else DENSE, workload, int(usable_gib * 1024) * MIB


def list_replicas(workload: ServeWorkload, num_gpus: int, model: Architecture) -> Configurations:
    """Yield every way to serve on so many GPUs, legal or not."""
    up = range(1, num_gpus + 1)
    experts = range(1, max(model.spec.num_experts, 1) + 1)
    for tensor, pipeline, data, expert in product(up, up, up, experts):
        if tensor * pipeline * data != num_gpus:
            continue
        shared = {None, tensor * data // expert} if expert > 1 else {None}
        for ranks_per_expert in shared - {0}:
            try:
                layout = Layout(
                    tensor_parallel=tensor,
                    pipeline_parallel=pipeline,
                    data_parallel=data,
                    expert_parallel=expert,
                    expert_tensor_parallel=ranks_per_expert,
                )
            except InvalidInputError:
                continue
            yield workload, layout


def ask_to_serve(random: Random, plans: PlanCache) -> Outcome | None:
    """Return a plan of replicas, as many as a rate takes, beside the fastest on as many GPUs."""
    model, workload, usable = random_load(random)
    subject = make_evaluator(model, a_device(usable), plans=plans)
    single = find_best(subject, Question(workload=workload, layout=Layout()), Objective.FEWEST_GPUS)
    if single is None or single.throughput is None:
        return None
    rate = single.throughput.tokens_per_second * random.uniform(1.2, 5)
    limits = Limits(max_gpus=8, min_tokens_per_second=rate, confidence=random.choice([0.95, None]))
    question = Question(workload=workload, layout=Layout(), limits=limits)
    best = find_best(subject, question, random.choice([Objective.FEWEST_GPUS, Objective.FASTEST]))
    if best is None:
        return None
    rivals = list_replicas(workload, best.num_gpus, model)
    optimum = optimum_of(subject, question, Legality(model), rivals, fastest=True)
    return Outcome(candidate=best, optimum=optimum)


def check_undominated(outcomes: list[Outcome]) -> None:
    """Assert that each plan is one of those that fit, and none of them is faster."""
    for outcome in outcomes:
        assert outcome.optimum is not None, outcome.candidate
        assert outcome.candidate.seconds_per_token <= outcome.optimum * EQUAL, outcome
        assert outcome.candidate.seconds_per_token >= outcome.optimum / EQUAL, outcome


def test_no_layout_of_the_same_gpus_trains_faster() -> None:
    """Whatever the objective: checkpointing, batch, sharding and degrees of the plan are the
    fastest that fit, if only once the allocator is replayed.
    """
    random, plans = Random(SEED), PlanCache(capacity=4096)  # noqa: S311 - questions, not secrets

    outcomes = [ask_to_train(random_case(random), plans) for _ in range(NUM_TRAINED)]

    planned = [outcome for outcome in outcomes if outcome is not None]
    assert len(planned) > NUM_TRAINED / 3
    check_undominated(planned)


def test_fsdp2_on_one_rank_hides_no_other_strategy() -> None:
    """It gathers there too: FSDP1, which gathers nothing, trained 27 % faster on the same two GPUs
    and was not looked at.
    """
    workload = TrainWorkload(sequence_length=2048, micro_batch_size=4, precision=POLICIES["fp32"])
    question = Question(
        workload=workload,
        layout=Layout(),
        fixed=frozenset({"context_parallel", "gradient_accumulation_steps"}),
        limits=Limits(max_gpus=3),
        frameworks=frozenset({"fsdp1", "fsdp2"}),
    )
    case = Case(usable_bytes=8_895_070_208, question=question, objective=Objective.CHEAPEST)

    outcome = ask_to_train(case, PlanCache())

    assert outcome is not None
    check_undominated([outcome])


def test_a_batch_that_fills_its_gpu_is_no_larger_than_the_gpu() -> None:
    """Cached memory is released there: four sequences reserve what two do, so that what two need
    more than one says nothing of them; a plan of two was a third slower.
    """
    workload = TrainWorkload(
        sequence_length=512,
        precision=POLICIES["bf16"],
        activation_checkpointing=Checkpointing.FULL,
    )
    fixed = {"activation_checkpointing", "gradient_accumulation_steps", "tensor_parallel"}
    question = Question(
        workload=workload,
        layout=Layout(),
        fixed=frozenset(fixed),
        limits=Limits(max_gpus=4, confidence=None),
        frameworks=frozenset({"torchtitan"}),
    )
    case = Case(usable_bytes=2_808_086_528, question=question, objective=Objective.FASTEST)

    outcome = ask_to_train(case, PlanCache())

    assert outcome is not None
    check_undominated([outcome])


def test_no_layout_of_the_same_gpus_serves_faster() -> None:
    """Of replicas the one with the most tokens per second of all of them."""
    random, plans = Random(SEED), PlanCache(capacity=4096)  # noqa: S311 - questions, not secrets

    outcomes = [ask_to_serve(random, plans) for _ in range(NUM_SERVED)]

    planned = [outcome for outcome in outcomes if outcome is not None]
    assert len(planned) > NUM_SERVED / 3
    assert len({outcome.candidate.layout for outcome in planned}) > 5, "all alike show nothing"
    check_undominated(planned)


@pytest.mark.parametrize("objective", [Objective.FEWEST_GPUS, Objective.CHEAPEST])
def test_more_replicas_beat_a_wider_split(objective: Objective) -> None:
    """50,000 tokens per second of an 8B model: 16 H100 in four replicas of four made 52,022, and
    as sixteen replicas of one they make 88,963.
    """
    subject = make_evaluator(
        load_architecture(resolve_model("llama-3.1-8b")), resolve_gpu("H100-SXM5-80GB").to_device()
    )
    workload = ServeWorkload(
        engine=Engine.VLLM, num_sequences=64, prompt_tokens=1024, output_tokens=512
    )
    limits = Limits(max_gpus=64, min_tokens_per_second=50_000)

    best = find_best(
        subject, Question(workload=workload, layout=Layout(), limits=limits), objective
    )

    assert best is not None
    assert best.throughput is not None
    rivals = list_replicas(workload, best.num_gpus, subject.architecture)
    rates = [
        throughput.tokens_per_second
        for config in rivals
        if Legality(subject.architecture).find_violation(*config) is None
        and (throughput := subject.get_throughput(*config, subject.answer(*config))) is not None
    ]
    assert best.throughput.tokens_per_second == pytest.approx(max(rates))
    assert best.throughput.tokens_per_second >= 50_000
    assert best.layout == replace(Layout(), data_parallel=best.num_gpus)
