"""Answers to fit questions at other levels of confidence.

A level changes intervals, verdict and assumptions, and nothing else of an answer: the bytes and
their explanation, times and rules of thumb are encoded once for all levels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from service.contract.encoding import GAP, Template
from service.contract.to_answer.fits import build_fit_answer, build_intervals, require_exact
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.memo import Memo
from service.estimator.values.result import Estimate
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.fit import FitReport, estimate_fit_numbers
from service.planner.fit.verdict import Verdict, judge
from service.usecases.questions.fit import MAX_ANSWERED, FitQuestion

MAX_TEMPLATES = 2 * MAX_ANSWERED
"""Of each configuration that counts as answered the whole answer, and one in part."""
MAX_BYTES = 32 * 2**10
"""A longer answer, as one of hundreds of stages, is worked out again; one in full has 7,000."""
_Points = tuple[int, int, int, int, str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedFit:
    """Encoded answer to a fit question, with its verdict."""

    body: bytes
    verdict: Verdict


class FitTemplate:
    """Answer to a fit question of any level."""

    __slots__ = ("_assumptions", "_pieces", "_points", "architecture", "device")

    def __init__(self, question: FitQuestion, report: FitReport) -> None:
        """Encode what a report without remedies says at every level."""
        answer = build_fit_answer(report, parts=question.parts)
        per_gpu = replace(answer.per_gpu, intervals=GAP)
        self._pieces = Template(replace(answer, verdict=GAP, per_gpu=per_gpu, assumptions=GAP))
        self._points = _get_points(report.estimate)
        self._assumptions: Sequence[str] = report.estimate.assumptions
        self.architecture: Architecture = question.architecture
        self.device: Device = question.device

    @property
    def num_bytes(self) -> int:
        """Encoded bytes beside what a level changes."""
        return self._pieces.num_bytes

    def answer(self, evaluator: Evaluator, question: FitQuestion) -> EncodedFit | None:
        """Return the answer at a question's level.

        None where it rests on another estimate: a verdict that a replay may turn is replayed, at
        one level and not at another.
        """
        numbers = estimate_fit_numbers(
            evaluator, question.workload, question.layout, question.parts
        )
        if _get_points(numbers) != self._points:
            return None
        require_exact(numbers)
        verdict = judge(numbers, self.device).verdict
        assumptions = (*question.assumptions, *self._assumptions)
        body = self._pieces.fill((verdict.value, build_intervals(numbers), assumptions))
        return EncodedFit(body=body, verdict=verdict)


class FitTemplates:
    """The latest answers to fits, for questions of other levels.

    An answer holds while the same calibrations are known.
    """

    def __init__(self, capacity: int = MAX_TEMPLATES) -> None:
        """Start empty; to be used by one thread."""
        self._templates: Memo[FitTemplate] = Memo(capacity)
        self._calibrations = -1

    def find(self, question: FitQuestion, *, calibrations: int) -> FitTemplate | None:
        """Return the answer to a question at some level.

        ``calibrations`` is the version of what was learnt.
        """
        if calibrations != self._calibrations:
            return None
        return self._templates.get(_build_key(question))

    def store(self, question: FitQuestion, report: FitReport, *, calibrations: int) -> None:
        """Keep an answer, whose model and GPU their owners keep.

        ``calibrations`` is the version of what was learnt when the work began.
        """
        if calibrations != self._calibrations:
            self.clear()
            self._calibrations = calibrations
        template = FitTemplate(question, report)
        if template.num_bytes <= MAX_BYTES:
            self._templates.store(_build_key(question), template)

    def clear(self) -> None:
        """Keep nothing any more; any thread may."""
        self._templates.clear()


def _build_key(question: FitQuestion) -> object:
    # A template keeps the model and the GPU of its key, so that no other has their identity.
    return (
        id(question.architecture),
        id(question.device),
        question.workload,
        question.layout,
        question.parts,
    )


def _get_points(estimate: Estimate) -> _Points:
    """Return the numbers that are the same at every level."""
    return (
        estimate.allocated_bytes,
        estimate.reserved_bytes,
        estimate.device_bytes,
        estimate.steady_bytes,
        estimate.peak_instant,
        estimate.replayed,
    )
