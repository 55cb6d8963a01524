"""Many fits: the numbers of each, without what explains them; pure."""

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.planner.fit.evaluator import Subject
from service.planner.fit.fit import FitReport
from service.planner.fit.verdict import judge


def fit_numbers(subject: Subject, workload: Workload, layout: Layout) -> FitReport:
    """Return verdict, bytes and intervals; raises EstimatorError for what cannot run or has no term yet."""
    estimate = subject.numbers(workload, layout)
    judgement = judge(estimate, subject.device)
    return FitReport(
        estimate=estimate,
        device=subject.device,
        verdict=judgement.verdict,
        headroom_bytes=judgement.headroom_bytes,
        deficit_bytes=judgement.deficit_bytes,
        rules_of_thumb=(),
        remedies=(),
        warnings=estimate.warnings,
    )
