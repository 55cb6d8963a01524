"""Refusals of questions about models that are being recorded."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType

from service.contract.to_question.models import ResolvedModel
from service.usecases.questions.fit import FitQuestion
from service.usecases.questions.waiting_bounds import describe_bound
from service.usecases.stored_specs.waiting import WaitingModelError


class _Bounded:
    """Block whose refusals say what is sure of the question."""

    __slots__ = ("_build",)

    def __init__(self, build: Callable[[ResolvedModel], FitQuestion]) -> None:
        self._build = build

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if isinstance(error, WaitingModelError) and error.architecture is not None:
            question = self._build(ResolvedModel(architecture=error.architecture))
            error.extra["bound"] = describe_bound(question)


def add_bound(build: Callable[[ResolvedModel], FitQuestion]) -> AbstractContextManager[None]:
    """Say in a refusal what is sure of the question.

    ``build`` makes the question of a model whose weights alone are known.
    """
    return _Bounded(build)
