"""Evaluators that are kept: one for each model, GPU and level."""

from dataclasses import replace

from service.catalog.gpus import resolve_gpu
from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload, Workload
from service.planner.fit.evaluator import Evaluator
from service.usecases.questions.evaluators import EvaluatorCache
from service.usecases.questions.fit import FitQuestion, judge_fit, judge_with
from tests.unit.usecases.builders import named_model

QUESTION = FitQuestion(
    architecture=named_model("tiny").architecture,
    workload=TrainWorkload(sequence_length=64),
    layout=Layout(),
    device=resolve_gpu("H200").to_device(),
)
PLANS = PlanCache()


def find_nothing(_model: Architecture, _workload: Workload, _layout: Layout, _gpu: str) -> None:
    """Return that nothing was learnt."""


def get(cache: EvaluatorCache, question: FitQuestion) -> Evaluator:
    """Return the evaluator of a question."""
    return cache.get(question, plans=PLANS, find_corrections=find_nothing)


def test_a_question_is_answered_as_by_an_evaluator_of_its_own() -> None:
    """Whatever was asked before of the same model and GPU."""
    cache = EvaluatorCache()
    for length in (64, 128):
        question = replace(QUESTION, workload=TrainWorkload(sequence_length=length))

        assert judge_with(get(cache, question), question) == judge_fit(question, plans=PLANS)


def test_another_model_gpu_or_level_has_another() -> None:
    """Workload and layout are what an evaluator is asked."""
    cache = EvaluatorCache()
    first = get(cache, QUESTION)
    others = [
        replace(QUESTION, architecture=named_model("tiny").architecture),
        replace(QUESTION, device=resolve_gpu("L4").to_device()),
        replace(QUESTION, level=0.9),
    ]

    assert get(cache, replace(QUESTION, layout=Layout(data_parallel=2))) is first
    assert first not in [get(cache, question) for question in others]


def test_a_cleared_cache_keeps_none() -> None:
    """An evaluator keeps its model, which may take megabytes."""
    cache = EvaluatorCache()
    first = get(cache, QUESTION)

    cache.clear()

    assert get(cache, QUESTION) is not first


def test_the_oldest_is_dropped() -> None:
    """So that models that have gone do not stay for ever."""
    cache = EvaluatorCache(capacity=2)
    first = get(cache, QUESTION)
    for level in (0.8, 0.9):
        get(cache, replace(QUESTION, level=level))

    assert get(cache, QUESTION) is not first


def test_what_is_learnt_later_counts() -> None:
    """An evaluator looks it up for each question."""
    cache = EvaluatorCache()
    looked_up: list[str] = []

    def find(_model: Architecture, _workload: Workload, _layout: Layout, gpu: str) -> None:
        looked_up.append(gpu)

    for _ in range(2):
        judge_with(cache.get(QUESTION, plans=PLANS, find_corrections=find), QUESTION)

    assert looked_up == [QUESTION.device.name] * 2
