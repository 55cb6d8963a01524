"""Does it fit: the estimate, the verdict, what the rules of thumb would have said, and what would help."""

from dataclasses import dataclass, replace

from service.estimator.memory.answer.corrections import as_timed
from service.estimator.speed.throughput import untimed
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate, Throughput
from service.estimator.values.workload import Workload
from service.planner.fit.evaluator import Subject
from service.planner.fit.remedies import Remedy, find_remedies
from service.planner.fit.rules_of_thumb import RuleOfThumb, rules_of_thumb
from service.planner.fit.verdict import Verdict, judge


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """The whole answer to one fit question; remedies are empty when it fits.

    ``warnings`` are the estimate's and those of its time.
    """

    estimate: Estimate
    device: Device
    verdict: Verdict
    headroom_bytes: int
    deficit_bytes: int
    rules_of_thumb: tuple[RuleOfThumb, ...]
    remedies: tuple[Remedy, ...]
    warnings: tuple[str, ...]
    throughput: Throughput | None = None


def fit(subject: Subject, workload: Workload, layout: Layout) -> FitReport:
    """Return the answer for one workload in one layout; raises EstimatorError for what cannot run or has no term yet."""
    return with_remedies(judged(subject, workload, layout), subject, workload, layout)


def with_remedies(report: FitReport, subject: Subject, workload: Workload, layout: Layout) -> FitReport:
    """Return a report with what would help where it does not fit: dozens of questions, which take up to half a second."""
    if report.verdict is Verdict.FITS:
        return report
    return replace(report, remedies=find_remedies(subject, workload, layout, report.estimate))


def judged(subject: Subject, workload: Workload, layout: Layout) -> FitReport:
    """Return the answer without remedies."""
    estimate = subject.answer(workload, layout)
    reason = untimed(subject.architecture, subject.device)
    judgement = judge(estimate, subject.device)
    return FitReport(
        estimate=estimate,
        device=subject.device,
        verdict=judgement.verdict,
        headroom_bytes=judgement.headroom_bytes,
        deficit_bytes=judgement.deficit_bytes,
        rules_of_thumb=rules_of_thumb(subject, workload, layout, estimate),
        remedies=(),
        warnings=estimate.warnings if reason is None else (*estimate.warnings, reason),
        throughput=as_timed(subject.throughput(workload, layout, estimate), estimate.step_time_ratio),
    )
