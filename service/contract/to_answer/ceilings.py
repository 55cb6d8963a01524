"""Ceilings of the planner as answers of the contract."""

from service.contract.schemas.ceilings import CeilingAnswer, NextAnswer
from service.contract.to_answer.fits import build_fit_answer
from service.contract.to_answer.requests import render_layout, render_workload
from service.estimator.backends.paged_pool.pool import NO_START
from service.estimator.values.result import EVALUATION
from service.estimator.values.units import format_bytes
from service.estimator.values.workload import TrainWorkload
from service.planner.fit.verdict import Verdict
from service.planner.plans.ceiling_search import Ceiling, Trial
from service.planner.plans.ceiling_values import Maximized
from service.usecases.questions.ceilings import CeilingReport


def build_ceiling_answer(
    report: CeilingReport,
    maximized: Maximized,
    *,
    assumptions: tuple[str, ...],
    cluster: str = "",
) -> CeilingAnswer:
    """Return a ceiling as the contract's answer, with the question's ``cluster``."""
    ceiling, best = report.ceiling, report.ceiling.best
    assumptions = (*assumptions, *ceiling.notes)
    return CeilingAnswer(
        value=ceiling.value,
        maximize=maximized.value,
        fit=None
        if report.fit is None
        else build_fit_answer(report.fit, assumptions=assumptions, cluster=cluster),
        workload=None if best is None else render_workload(best.workload),
        layout=None if best is None else render_layout(best.layout),
        next=_build_next(ceiling),
        num_evaluated=ceiling.num_evaluated,
        assumptions=list(assumptions),
    )


def _build_next(ceiling: Ceiling) -> NextAnswer:
    following = ceiling.next
    if following is None:
        return NextAnswer(
            value=None, deficit_bytes=None, missing_bytes=None, reason=ceiling.refusal or ""
        )
    deficit, missing = following.judgement.deficit_bytes, following.missing_bytes
    fits = following.judgement.verdict is not Verdict.DOES_NOT_FIT
    place = "a process can allocate" if deficit else "the engine's budget or the node has"
    when = _name_evaluation(following)
    starts = "".join(f": {text}" for text in following.estimate.warnings if NO_START in text)
    lacks = (
        f"{following.value:,} needs {format_bytes(deficit or missing)} more than "
        f"{place}{when}{starts}"
    )
    tight = (
        f"{following.value:,} fits at the point, but the upper end of its interval is "
        f"{format_bytes(missing)} too high{when}"
    )
    return NextAnswer(
        value=following.value,
        deficit_bytes=deficit,
        missing_bytes=missing,
        reason=tight if fits else lacks,
    )


def _name_evaluation(trial: Trial) -> str:
    """Return which evaluation decides, nothing where a step does."""
    workload = trial.workload
    evaluation = workload.evaluation if isinstance(workload, TrainWorkload) else None
    if evaluation is None or trial.estimate.peak_instant != EVALUATION:
        return ""
    kept = evaluation.kept_batches
    logits = f" and the logits of {kept} batches" if kept else ""
    return f" in its evaluation, which has a batch of {evaluation.batch_size}{logits}"
