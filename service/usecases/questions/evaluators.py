"""Evaluators of frequent models and GPUs."""

from collections import OrderedDict

from service.estimator.cache import PlanCache
from service.planner.fit.evaluator import Evaluator
from service.usecases.questions.fit import (
    FindCorrections,
    FitQuestion,
    make_question_evaluator,
)

MAX_EVALUATORS = 1024


class EvaluatorCache:
    """The latest evaluators of models that their owner keeps anyway.

    What a GPU lacks for a model is found once, not for every question.
    """

    def __init__(self, capacity: int = MAX_EVALUATORS) -> None:
        """Start empty; to be asked by one thread."""
        self._capacity = capacity
        self._evaluators: OrderedDict[tuple[int, int, float, str], Evaluator] = OrderedDict()

    def clear(self) -> None:
        """Drop all, and the models that they keep; any thread may."""
        self._evaluators = OrderedDict()

    def list_kept(self) -> list[Evaluator]:
        """Return all that are kept; any thread may ask."""
        return list(self._evaluators.values())

    def get(
        self, question: FitQuestion, *, plans: PlanCache, find_corrections: FindCorrections
    ) -> Evaluator:
        """Return the evaluator of a question.

        ``plans`` and ``find_corrections`` are the same whenever a cache is asked.
        """
        # An evaluator keeps the model and the GPU that its key names, so that no other has their
        # identity; comparing them by what they hold takes longer than making an evaluator.
        key = (
            id(question.architecture),
            id(question.device),
            question.level,
            question.cluster,
        )
        evaluators = self._evaluators
        evaluator = evaluators.get(key)
        if evaluator is None:
            evaluator = make_question_evaluator(question, plans, find_corrections)
            evaluators[key] = evaluator
            if len(evaluators) > self._capacity:
                evaluators.popitem(last=False)
        return evaluator
