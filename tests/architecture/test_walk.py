"""A question on its way through the estimator: resolved where it comes in, and handed to few."""

from importlib import import_module

from service.estimator.backends.registry import BACKENDS
from tests.architecture.walk import Place, Source, Walk

MAX_STAYS, MAX_RETURNS = 40, 15


def test_a_question_is_handed_to_few_rooms() -> None:
    """What is below takes what was resolved of it: the walk hardly comes back to a room."""
    backends = [import_module(module).BACKEND for module in BACKENDS.values()]
    modules = [module for backend in backends for module in backend.answers.values()]
    answers = tuple(Place(module, "answer") for module in dict.fromkeys(modules))
    walk = Walk(Source(package="service.estimator"), answers)

    walk.enter(Place("service.estimator.estimate", "estimate"), frozenset({"workload"}))

    stays = walk.list_stays()
    assert len(answers) == len({answer for answer in answers if answer in walk.places})
    assert len(stays) <= MAX_STAYS, stays
    assert len(stays) - len(set(stays)) <= MAX_RETURNS, stays
