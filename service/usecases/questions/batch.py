"""Fits in bulk: numbers without explanations; pure."""

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.fit import FitReport
from service.planner.fit.verdict import judge


def compute_fit_numbers(evaluator: Evaluator, workload: Workload, layout: Layout) -> FitReport:
    """Return verdict, bytes and intervals.

    Raises EstimatorError for what cannot run or has no term yet.
    """
    estimate = evaluator.estimate_numbers(workload, layout)
    judgement = judge(estimate, evaluator.device)
    return FitReport(
        estimate=estimate,
        device=evaluator.device,
        verdict=judgement.verdict,
        headroom_bytes=judgement.headroom_bytes,
        deficit_bytes=judgement.deficit_bytes,
        rules_of_thumb=(),
        remedies=(),
        warnings=estimate.warnings,
    )
