"""Does it fit: the pure part of the question, asked with what was learnt; no database, no thread."""

from collections.abc import Callable
from dataclasses import dataclass

from service.estimator.estimate import PlanCache
from service.estimator.memory.allocator.replay_cache import MAX_REPLAYS
from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, Workload
from service.planner.fit.evaluator import Subject, make_subject
from service.planner.fit.fit import FitReport, judged, with_remedies

FindCorrections = Callable[[Architecture, Workload, Layout, str], Corrections | None]
"""What was learnt about a question on the GPU of a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitQuestion:
    """A workload in a layout on a GPU; ``assumptions`` are the defaults that the request left to us."""

    architecture: Architecture
    workload: Workload
    layout: Layout
    device: Device
    level: float = LEVEL
    """Of the intervals, whose upper end decides."""
    assumptions: tuple[str, ...] = ()


class Answered:
    """Which configurations this process has answered, the latest ``capacity``: what an answer is computed from is at hand.

    A first answer records the model and replays the allocator, which takes up to a tenth of a second; the next ones take
    less than a millisecond, on every GPU and whatever was learnt meanwhile.
    """

    def __init__(self, capacity: int = MAX_REPLAYS) -> None:
        """Start empty; to be used by one thread."""
        self._capacity = capacity
        self._known: dict[object, None] = {}

    def knows(self, question: FitQuestion) -> bool:
        """Tell whether this configuration was answered lately."""
        return _configuration(question) in self._known

    def note(self, question: FitQuestion) -> None:
        """Keep that it was answered; the oldest is forgotten first, as what it was computed from is."""
        self._known[_configuration(question)] = None
        while len(self._known) > self._capacity:
            del self._known[next(iter(self._known))]


def _configuration(question: FitQuestion) -> object:
    """Return what a first answer is computed for: serving is recorded once for all sizes, and training replayed for each."""
    workload = question.workload
    shape = (workload.engine, workload.weight_dtype) if isinstance(workload, ServeWorkload) else workload
    return question.architecture.spec, question.architecture.quantization, shape, question.layout


def answer_fit(question: FitQuestion, *, plans: PlanCache, find_corrections: FindCorrections | None = None) -> FitReport:
    """Return the answer; raises EstimatorError for what cannot run or has no term yet."""
    return help_fit(judge_fit(question, plans=plans, find_corrections=find_corrections), question, plans, find_corrections)


def judge_fit(question: FitQuestion, *, plans: PlanCache, find_corrections: FindCorrections | None = None) -> FitReport:
    """Return the answer without remedies; quick enough for an event loop where the configuration was answered before."""
    subject = _subject(question, plans, find_corrections)
    return judged(subject, question.workload, question.layout)


def help_fit(
    report: FitReport, question: FitQuestion, plans: PlanCache, find_corrections: FindCorrections | None = None
) -> FitReport:
    """Return an answer with its remedies, where it does not fit."""
    subject = _subject(question, plans, find_corrections)
    return with_remedies(report, subject, question.workload, question.layout)


def _subject(question: FitQuestion, plans: PlanCache, find: FindCorrections | None) -> Subject:
    return subject_of(question.architecture, question.device, plans=plans, find_corrections=find, level=question.level)


def subject_of(
    architecture: Architecture,
    device: Device,
    *,
    plans: PlanCache,
    find_corrections: FindCorrections | None,
    level: float = LEVEL,
) -> Subject:
    """Return a model on a GPU that answers with what was learnt about each configuration, and with intervals of a level."""
    if find_corrections is None:
        return make_subject(architecture, device, plans=plans, level=level)

    def corrections_for(workload: Workload, layout: Layout) -> Corrections | None:
        return find_corrections(architecture, workload, layout, device.name)

    return make_subject(architecture, device, corrections_for=corrections_for, plans=plans, level=level)
