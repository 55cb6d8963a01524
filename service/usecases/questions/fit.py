"""Fit questions answered with learnt corrections; pure.

No database and no thread.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from service.estimator.backends.pass_cache import MAX_PASSES
from service.estimator.cache import PlanCache
from service.estimator.memory.allocator.replay_cache import MAX_REPLAYS
from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, ServeWorkload, Workload
from service.planner.fit.evaluator import Evaluator, make_evaluator
from service.planner.fit.fit import FitReport, assess_fit
from service.planner.fit.parts import ALL_PARTS, REPLAYED, FitPart

FindCorrections = Callable[[Architecture, Workload, Layout, str], Corrections | None]
"""Returns what was learnt about a question on the GPU of a name."""


@runtime_checkable
class BoundsTimes(Protocol):
    """Corrections that say how fast anything on a GPU is at best."""

    def get_time_floor(self, gpu: str) -> float:
        """Return the least time on a GPU over its analytic one."""
        ...


MAX_ANSWERED = min(MAX_PASSES, MAX_REPLAYS) // 2
"""No configuration counts as answered whose recording or replay may have been dropped: searches
leave theirs among them.
"""


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


class AnsweredQuestions:
    """The latest ``capacity`` configurations that this process answered.

    Their recorded models and replays are cached. A first answer records the model and replays the
    allocator, which takes up to a tenth of a second; later ones take less than a millisecond,
    whatever was learnt meanwhile.
    """

    def __init__(self, capacity: int = MAX_ANSWERED) -> None:
        """Start empty; to be used by one thread."""
        self._capacity = capacity
        self._configurations: dict[object, None] = {}

    def has_answered(self, question: FitQuestion, needs_replay: Callable[[], bool]) -> bool:
        """Return whether all that an answer rests on was made lately.

        ``needs_replay`` says, of a configuration that was answered without one, whether this answer
        takes a replay: a verdict at another level may, or after something was learnt.
        """
        configuration = _get_configuration(question)
        if (configuration, True) in self._configurations:
            return True
        return (
            not question.parts & REPLAYED
            and (configuration, False) in self._configurations
            and not needs_replay()
        )

    def record(self, question: FitQuestion, *, is_replayed: bool, is_quick: bool = True) -> None:
        """Record an answered configuration.

        One whose answer was not quick counts as never answered: the next is timed as well. The
        oldest is dropped first, as the cached replays are.
        """
        configurations = self._configurations
        key = _get_configuration(question), is_replayed or bool(question.parts & REPLAYED)
        if not is_quick:
            configurations.pop(key, None)
            return
        configurations[key] = None
        while len(configurations) > self._capacity:
            del configurations[next(iter(configurations))]

    def clear(self) -> None:
        """Count no configuration as answered any more; any thread may."""
        self._configurations = {}


def _get_configuration(question: FitQuestion) -> object:
    """Return the part of a question that determines a first answer.

    An engine's server is recorded once for all sizes. What runs on transformers is replayed for
    each, with the kernels of its GPU, and once more where that is full.
    """
    workload, architecture, device = question.workload, question.architecture, question.device
    model = architecture.spec, architecture.quantization
    if isinstance(workload, ServeWorkload) and workload.engine is not Engine.TRANSFORMERS:
        return model, workload.engine, workload.weight_dtype, question.layout
    return model, workload, question.layout, device.name, device.usable_bytes


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
        find_corrections=find,
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
