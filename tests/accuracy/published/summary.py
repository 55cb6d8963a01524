"""What the published scores say as a whole: every group of equal weight, so that no long series of
one model decides.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from service.estimator.values.units import MIB
from service.planner.fit.verdict import Verdict
from tests.accuracy.published.scoring import Label, PublishedScore, PublishedScores


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSummary:
    """Errors of one quantity of one class, outside of what the print allows; ``unit`` says whether
    relative or in MiB.
    """

    scores_as: str
    quantity: str
    unit: str
    num_cases: int
    num_groups: int
    median: float
    p90: float
    bias: float
    num_under: int
    coverage: float | None


def summaries(found: PublishedScores) -> list[PublishedSummary]:
    """Return a line per class, quantity and unit, in alphabetical order."""
    kinds = sorted({_kind(score) for score in found.scores})
    return [
        _summary(kind, [score for score in found.scores if _kind(score) == kind]) for kind in kinds
    ]


def weighted_quantile(pairs: Iterable[tuple[float, float]], share: float) -> float:
    """Return the smallest value that at least ``share`` of the weight does not exceed; pairs of
    value and weight.
    """
    ascending = sorted(pairs)
    wanted, reached = share * sum(weight for _, weight in ascending), 0.0
    for value, weight in ascending:
        reached += weight
        if reached >= wanted - 1e-9:
            return value
    return ascending[-1][0]


def pooled(found: PublishedScores, classes: Sequence[str]) -> PublishedSummary:
    """Return the relative errors of some classes in one line, whatever was read: cases with
    absolute errors are left out.
    """
    scores = [score for score in found.scores if score.scores_as in classes and not score.absolute]
    return _summary((" and ".join(classes), "all", "%"), scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSummary:
    """Verdicts against what is known of the runs; ``tight`` counts as neither."""

    num_runs: int
    num_out_of_memory: int
    false_fits: int
    false_refusals: int
    num_tight: int


def labels(found: Sequence[Label]) -> LabelSummary:
    """Return the counts of wrong verdicts."""
    return LabelSummary(
        num_runs=len(found),
        num_out_of_memory=sum(not label.ran for label in found),
        false_fits=sum(not label.ran and label.verdict is Verdict.FITS for label in found),
        false_refusals=sum(label.ran and label.verdict is Verdict.DOES_NOT_FIT for label in found),
        num_tight=sum(label.verdict is Verdict.TIGHT for label in found),
    )


def worst(found: PublishedScores, line: PublishedSummary, count: int) -> list[PublishedScore]:
    """Return the scores of a line that are furthest off."""
    kind = (line.scores_as, line.quantity, line.unit)
    return sorted(
        (score for score in found.scores if _kind(score) == kind),
        key=lambda score: -abs(_error(score)),
    )[:count]


def _kind(score: PublishedScore) -> tuple[str, str, str]:
    return score.scores_as, score.quantity, "MiB" if score.absolute else "%"


def _error(score: PublishedScore) -> float:
    return score.difference / MIB if score.absolute else score.error


def _summary(kind: tuple[str, str, str], scores: list[PublishedScore]) -> PublishedSummary:
    sizes = Counter(score.group for score in scores)
    weights = [1 / sizes[score.group] for score in scores]
    errors = [_error(score) for score in scores]
    covered = [
        (float(score.covered), weight)
        for score, weight in zip(scores, weights, strict=True)
        if score.covered is not None
    ]
    sized = [(abs(error), weight) for error, weight in zip(errors, weights, strict=True)]
    scores_as, quantity, unit = kind
    return PublishedSummary(
        scores_as=scores_as,
        quantity=quantity,
        unit=unit,
        num_cases=len(scores),
        num_groups=len(sizes),
        median=weighted_quantile(sized, 0.5),
        p90=weighted_quantile(sized, 0.9),
        bias=sum(error * weight for error, weight in zip(errors, weights, strict=True))
        / sum(weights),
        num_under=sum(score.difference < 0 for score in scores),
        coverage=sum(inside * weight for inside, weight in covered)
        / sum(weight for _, weight in covered)
        if covered
        else None,
    )
