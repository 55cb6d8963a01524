"""Refusals of questions about models that are being recorded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.contract.to_question.models import ResolvedModel
from service.usecases.questions.fit import FitQuestion
from service.usecases.questions.waiting_bounds import describe_bound
from service.usecases.stored_specs.waiting import WaitingModelError


@contextmanager
def add_bound(build: Callable[[ResolvedModel], FitQuestion]) -> Iterator[None]:
    """Say in a refusal what is sure of the question.

    ``build`` makes the question of a model whose weights alone are known.
    """
    try:
        yield
    except WaitingModelError as error:
        if error.architecture is not None:
            question = build(ResolvedModel(architecture=error.architecture))
            error.extra["bound"] = describe_bound(question)
        raise
