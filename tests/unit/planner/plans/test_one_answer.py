"""Planner, how-many, remedies and fit are of one mind about random questions."""

from dataclasses import dataclass, fields, replace
from random import Random

from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.units import MIB
from service.estimator.values.workload import (
    Checkpointing,
    Engine,
    Framework,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.fit.evaluator import Config, Evaluator, make_evaluator
from service.planner.fit.fit import assess_fit
from service.planner.fit.verdict import Verdict
from service.planner.plans.how_many import find_fewest_gpus
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import Plan
from service.planner.plans.plans import plan_offer
from service.planner.remedies.find import find_remedies
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Limits, Question
from service.planner.search.splits import list_varied_fields
from tests.unit.planner.builders import a_device, shallow

SEED, NUM_QUESTIONS = 20261129, 14
MAX_GPUS = 8
MODELS = (shallow("tinyllama-1.1b", 2), shallow("mixtral-8x7b", 1))
SHARDED = (
    Layout(),
    Layout(data_parallel=2),
    Layout(data_parallel=2, zero_stage=3, sharding=Sharding.FSDP2),
    Layout(data_parallel=2, zero_stage=2, sharding=Sharding.DEEPSPEED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One job on GPUs of one size, and all that is said about it."""

    subject: Evaluator
    question: Question
    fewest: Plan | None


def draw_training(random: Random) -> Config:
    """Return a training job in one of four layouts."""
    adapters = random.random() < 0.4
    workload = TrainWorkload(
        sequence_length=random.choice([512, 2048, 8192, 32768]),
        micro_batch_size=random.choice([1, 2, 4]),
        precision=POLICIES["bf16" if adapters else random.choice(["bf16", "bf16_mixed", "fp32"])],
        activation_checkpointing=random.choice([Checkpointing.NONE, Checkpointing.FULL]),
        method=Method.LORA if adapters else Method.FULL,
        lora=Lora() if adapters else None,
    )
    layout = random.choice(SHARDED)
    if not adapters and layout == Layout() and random.random() < 0.3:
        megatron = replace(workload, framework=Framework.MEGATRON, precision=POLICIES["bf16"])
        return megatron, replace(layout, sharding=Sharding.MEGATRON)
    return workload, layout


def draw_serving(random: Random) -> Config:
    """Return a served load on one rank or two."""
    workload = ServeWorkload(
        engine=random.choice([Engine.VLLM, Engine.SGLANG, Engine.TRANSFORMERS]),
        num_sequences=random.choice([4, 32, 128]),
        prompt_tokens=random.choice([256, 1024]),
        output_tokens=random.choice([64, 512]),
        max_model_len=None,
    )
    return workload, Layout(tensor_parallel=random.choice([1, 2]))


def ask(random: Random, plans: PlanCache) -> Asked:
    """Return a random question with the fewest GPUs for it."""
    model: Architecture = random.choice(MODELS)
    trains = random.random() < 0.7
    config = draw_training(random) if trains else draw_serving(random)
    usable = int(random.uniform(2, 12) * 1024) * MIB
    subject = make_evaluator(model, a_device(usable), plans=plans)
    fixed = frozenset({"framework"} if trains else ())
    limits = Limits(max_gpus=MAX_GPUS, confidence=random.choice([0.95, None]))
    question = Question(workload=config[0], layout=config[1], fixed=fixed, limits=limits)
    try:
        fewest = find_fewest_gpus(subject, question)
    except EstimatorError:
        fewest = None
    return Asked(subject=subject, question=question, fewest=fewest)


def is_enough(asked: Asked, workload: Workload, layout: Layout) -> bool:
    """Return whether a fit is what the question takes for enough."""
    verdict = assess_fit(asked.subject, workload, layout).verdict
    confident = asked.question.limits.confidence is not None
    return verdict is Verdict.FITS or (verdict is Verdict.TIGHT and not confident)


def count_fewest(asked: Asked) -> float:
    """Return the fewest GPUs, infinitely many where none are enough."""
    fewest = asked.fewest
    return float("inf") if fewest is None or fewest.num_gpus is None else fewest.num_gpus


def list_changed_fields(before: Config, after: Config) -> set[str]:
    """Return the fields of workload and layout that differ."""
    return {
        field.name
        for old, new in zip(before, after, strict=True)
        for field in fields(old)
        if getattr(old, field.name) != getattr(new, field.name)
    }


def check_candidates(asked: Asked, fewest: Plan) -> None:
    """Assert that a fit confirms each candidate, and that the job as asked is one that counts."""
    for candidate in fewest.candidates:
        assert is_enough(asked, candidate.workload, candidate.layout), candidate
    layout = asked.question.layout
    if is_enough(asked, asked.question.workload, layout):
        assert count_fewest(asked) <= layout.num_gpus, asked.question


def check_plans(asked: Asked) -> None:
    """Assert that a plan of each objective has as many GPUs, or more where it is the fastest."""
    for objective in (Objective.FEWEST_GPUS, Objective.FASTEST):
        offer = Offer(device=asked.subject.device)
        space = SearchSpace(asked.subject.architecture, asked.question, offer)
        planned = plan_offer(offer, Search(asked.subject, space), objective).num_gpus
        number = float("inf") if planned is None else planned
        if objective is Objective.FEWEST_GPUS:
            assert number == count_fewest(asked), asked.question
        else:
            assert count_fewest(asked) <= number, asked.question
            assert (planned is None) == (count_fewest(asked) == float("inf")), asked.question


def check_remedies(asked: Asked) -> int:
    """Assert that none needs fewer GPUs; return how many change only what a search varies."""
    config, compared = (asked.question.workload, asked.question.layout), 0
    if is_enough(asked, *config):
        return 0
    for remedy in find_remedies(asked.subject, *config).remedies:
        if remedy.verdict is not Verdict.FITS or remedy.num_gpus > MAX_GPUS:
            continue
        assert is_enough(asked, remedy.workload, remedy.layout), remedy.change
        if is_searched(asked, config, (remedy.workload, remedy.layout)):
            compared += 1
            assert count_fewest(asked) <= remedy.num_gpus, (asked.question, remedy.change)
    return compared


def check_smallest_change(asked: Asked, fewest: Plan) -> None:
    """Assert that what would help is none of the layouts that were searched."""
    change, nearest = fewest.smallest_change, fewest.closest
    if change is None or nearest is None or change.gpu != asked.subject.device.name:
        return
    before = nearest.nearest.workload, nearest.nearest.layout
    is_beyond = change.num_gpus > MAX_GPUS
    assert is_beyond or not is_searched(asked, before, (change.workload, change.layout)), change


def is_searched(asked: Asked, before: Config, after: Config) -> bool:
    """Return whether a search varies all that differs."""
    varied = list_varied_fields(asked.question) | {"context_parallel_method"}
    return list_changed_fields(before, after) <= varied - asked.question.fixed


def test_no_two_answers_contradict_each_other() -> None:
    """A fit confirms what is planned, and neither a remedy nor what would help beats the number."""
    random, plans = Random(SEED), PlanCache(capacity=4096)  # noqa: S311 - questions, not secrets
    compared = 0

    for asked in [ask(random, plans) for _ in range(NUM_QUESTIONS)]:
        if asked.fewest is not None:
            check_candidates(asked, asked.fewest)
            check_plans(asked)
            check_smallest_change(asked, asked.fewest)
            compared += check_remedies(asked)

    assert compared > 5
