"""Sets the estimator's answers beside published readings, every group of cases with the same
weight.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from service.estimator.cache import PlanCache
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Estimate, Interval
from service.planner.fit.verdict import Verdict, judge
from tests.accuracy.published.asking import answer_of, question_of
from tests.accuracy.published.quantities import predicted
from tests.accuracy.published.rows import PublishedCase, Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedScore:
    """One reading beside its prediction; ``low`` to ``high`` is what the print allows,
    ``components`` the answer's parts.
    """

    scores_as: str
    quantity: str
    case: str
    group: str
    absolute: bool
    predicted: float
    low: float
    high: float
    interval: Interval | None
    kind: str
    allocated_kind: str
    reserved_kind: str
    """The kinds of answers whose residuals the interval stands on: of any quantity, of the
    allocated, and of the reserved bytes.
    """
    components: tuple[tuple[str, int], ...]

    @property
    def difference(self) -> float:
        """Predicted minus the nearer end of what was read; zero inside."""
        return max(self.predicted - self.high, 0) + min(self.predicted - self.low, 0)

    @property
    def error(self) -> float:
        """The difference relative to the nearer end."""
        end = self.high if self.predicted > self.high else self.low
        return self.difference / end if end else float(self.difference != 0)

    @property
    def covered(self) -> bool | None:
        """Whether what was read touches the answer's interval; ``None`` where the answer gives
        none.
        """
        if self.interval is None:
            return None
        return self.interval.low <= self.high and self.low <= self.interval.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A run of which it is known whether it ran out of memory, and the verdict about it."""

    case: str
    group: str
    ran: bool
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedScores:
    """All scores and labels, and the reasons of the cases without an answer."""

    scores: tuple[PublishedScore, ...]
    labels: tuple[Label, ...]
    refusals: Counter[tuple[str, str]]


def score_published(cases: Sequence[PublishedCase]) -> PublishedScores:
    """Ask every case's question."""
    plans = PlanCache()
    scores: list[PublishedScore] = []
    labels: list[Label] = []
    refusals: Counter[tuple[str, str]] = Counter()
    for case in cases:
        try:
            answer = answer_of(case, plans)
        except (EstimatorError, msgspec.ValidationError) as error:
            refusals[case.scores_as, str(error)] += 1
            continue
        scores += _scores(case, answer)
        labels += _labels(case, answer)
    return PublishedScores(scores=tuple(scores), labels=tuple(labels), refusals=refusals)


def _scores(case: PublishedCase, answer: Estimate) -> Iterator[PublishedScore]:
    if case.outcome != "ok":
        return
    for reading in case.readings:
        found = predicted(case, answer, reading.quantity)
        if found is not None:
            yield _score(case, reading, found, answer)


def _score(
    case: PublishedCase,
    reading: Reading,
    found: tuple[float, float, Interval | None],
    answer: Estimate,
) -> PublishedScore:
    low, high, interval = found
    nearest = min(max(reading.low, low), high) if low <= reading.high else low
    return PublishedScore(
        scores_as=case.scores_as,
        quantity=reading.quantity,
        case=case.id,
        group=case.group,
        absolute=case.absolute,
        predicted=nearest,
        low=reading.low,
        high=reading.high,
        interval=interval,
        kind=answer.interval_kind,
        allocated_kind=answer.allocated_kind,
        reserved_kind=answer.reserved_kind,
        components=tuple((component.name, component.bytes) for component in answer.components),
    )


def _labels(case: PublishedCase, answer: Estimate) -> Iterator[Label]:
    if isinstance(case.gpu, str) or "memory_bytes" in case.gpu:
        judgement = judge(answer, question_of(case).device)
        yield Label(
            case=case.id, group=case.group, ran=case.outcome == "ok", verdict=judgement.verdict
        )
