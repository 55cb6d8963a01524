"""Fit questions answered with learnt corrections; pure.

No database and no thread.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from service.calibration.environment import name_place
from service.estimator.cache import PlanCache
from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.model.architecture import Architecture
from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.memo import Memo, OfObjects, make_of_kept
from service.estimator.values.workload import Engine, Framework, ServeWorkload, Workload
from service.planner.fit.evaluator import Evaluator, make_evaluator
from service.planner.fit.fit import FitReport, assess_fit
from service.planner.fit.parts import ALL_PARTS, FitPart

FindCorrections = Callable[[Architecture, Workload, Layout, str], Corrections | None]
"""Returns what was learnt about a question on the GPU of a name, or on those of a place."""


@runtime_checkable
class BoundsTimes(Protocol):
    """Corrections that say how fast anything on a GPU is at best."""

    def get_time_floor(self, gpu: str) -> float:
        """Return the least time on a GPU over its analytic one."""
        ...


MAX_ANSWERED = 1024
"""Models in layouts, far more than anybody asks about in turns; each is a few words."""


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class FitQuestion:
    """A workload in a layout on a GPU.

    ``assumptions`` are the defaults that the request left open.
    """

    architecture: Architecture
    workload: Workload
    layout: Layout
    device: Device
    level: float = LEVEL
    """Level of the intervals, whose upper end decides."""
    assumptions: tuple[str, ...] = ()
    parts: frozenset[FitPart] = ALL_PARTS
    cluster: str = ""
    """The stored cluster whose measurements come first; empty where none is named."""


class AnsweredQuestions:
    """The latest ``capacity`` models in layouts that this process answered quickly.

    A first answer records the model and replays the allocator, which takes up to a tenth of a
    second; later ones take less than a millisecond where all of that is kept. Some of hundreds of
    stages take long even then.
    """

    def __init__(self, capacity: int = MAX_ANSWERED) -> None:
        """Start empty; to be used by one thread."""
        self._capacity = capacity
        self._models: dict[object, None] = {}
        self._met: Memo[OfObjects[bool]] = Memo(capacity)

    def has_answered(self, question: FitQuestion) -> bool:
        """Return whether the last answer about its model and layout was quick."""
        model, layout = question.architecture, question.layout
        backend = _get_backend(question.workload)
        # Most questions come with the very model and layout of others; hashing these takes longer.
        key = id(model), id(layout), type(question.workload), backend
        if self._met.get(key) is not None:
            return True
        if _get_configuration(question) not in self._models:
            return False
        self._met.store(key, ((model, layout), True))
        return True

    def record(self, question: FitQuestion, *, is_quick: bool) -> None:
        """Record an answer.

        One that was not quick counts as none: the next is timed as well.
        """
        models, key = self._models, _get_configuration(question)
        if not is_quick:
            models.pop(key, None)
            self._met.clear()
            return
        models[key] = None
        while len(models) > self._capacity:
            del models[next(iter(models))]
            self._met.clear()

    def clear(self) -> None:
        """Count nothing as answered any more; any thread may."""
        self._models = {}
        self._met.clear()


def _get_backend(workload: Workload) -> Framework | Engine:
    return workload.engine if isinstance(workload, ServeWorkload) else workload.framework


def _get_configuration(question: FitQuestion) -> object:
    """Return what decides how long an answer takes from what is kept."""
    workload, model = question.workload, question.architecture
    backend = _get_backend(workload)
    return model.spec, model.quantization, type(workload), backend, question.layout


def judge_kept(evaluator: Evaluator, question: FitQuestion) -> FitReport | None:
    """Return the fit without remedies, from what is kept.

    None where it takes a recording or a replay.
    """
    return make_of_kept(lambda: judge_with(evaluator, question))


def judge_fit(
    question: FitQuestion, *, plans: PlanCache, find_corrections: FindCorrections | None = None
) -> FitReport:
    """Return the fit without remedies.

    It is quick enough for an event loop where the configuration was answered before.
    """
    return judge_with(make_question_evaluator(question, plans, find_corrections), question)


def judge_with(evaluator: Evaluator, question: FitQuestion) -> FitReport:
    """Return the fit without remedies, by an evaluator that was made before."""
    return assess_fit(evaluator, question.workload, question.layout, question.parts)


def make_question_evaluator(
    question: FitQuestion, plans: PlanCache, find: FindCorrections | None
) -> Evaluator:
    """Return the evaluator of a question, with what was learnt."""
    return make_calibrated_evaluator(
        question.architecture,
        question.device,
        plans=plans,
        find_corrections=in_cluster(find, question.cluster),
        level=question.level,
    )


def make_calibrated_evaluator(
    architecture: Architecture,
    device: Device,
    *,
    plans: PlanCache,
    find_corrections: FindCorrections | None,
    level: float = LEVEL,
) -> Evaluator:
    """Return an evaluator of a model on a GPU with learnt corrections.

    Corrections are found for each configuration; intervals are of ``level``.
    """
    if find_corrections is None:
        return make_evaluator(architecture, device, plans=plans, level=level)

    def corrections_for(workload: Workload, layout: Layout) -> Corrections | None:
        return find_corrections(architecture, workload, layout, device.name)

    return make_evaluator(
        architecture,
        device,
        corrections_for=corrections_for,
        plans=plans,
        level=level,
        time_floor=get_time_floor(find_corrections, device.name),
    )


def get_time_floor(find: object, gpu: str) -> float:
    """Return the least time on a GPU over its analytic one."""
    return find.get_time_floor(gpu) if isinstance(find, BoundsTimes) else 1.0


def in_cluster(find: FindCorrections | None, cluster: str) -> FindCorrections | None:
    """Return a lookup of what was learnt of a cluster before others."""
    return find if find is None or not cluster else _ClusterLookup(find=find, cluster=cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClusterLookup:
    find: FindCorrections
    cluster: str

    def __call__(
        self, architecture: Architecture, workload: Workload, layout: Layout, gpu: str
    ) -> Corrections | None:
        return self.find(architecture, workload, layout, name_place(gpu, self.cluster))

    def get_time_floor(self, gpu: str) -> float:
        return get_time_floor(self.find, name_place(gpu, self.cluster))
