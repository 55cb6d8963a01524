"""Fit question: estimate, verdict and rules of thumb."""

from dataclasses import dataclass, replace

from service.estimator.speed.bounds import describe_bound
from service.estimator.speed.throughput import find_untimed_reason
from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate, Throughput
from service.estimator.values.workload import Workload
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.parts import ALL_PARTS, EXPLAINED, REPLAYED, FitPart
from service.planner.fit.remedy import Remedy, RemedySearch
from service.planner.fit.replay_need import may_turn
from service.planner.fit.rule_of_thumb import RuleOfThumb
from service.planner.fit.rules_of_thumb import list_rules_of_thumb
from service.planner.fit.verdict import Verdict, judge


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """Answer to one fit question.

    Remedies are empty when it fits.

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
    bound_reason: str = ""
    """Which side decides the throughput's time, and what would help."""
    remedy_search: RemedySearch | None = None
    """How far remedies were looked for; None where they were not."""


def assess_fit(
    evaluator: Evaluator,
    workload: Workload,
    layout: Layout,
    parts: frozenset[FitPart] = ALL_PARTS,
) -> FitReport:
    """Answer a fit question without remedies.

    What ``parts`` leaves out is not worked out where that saves anything.
    """
    estimate = _estimate(evaluator, workload, layout, parts)
    judgement = judge(estimate, evaluator.device)
    throughput, untimed = None, None
    if FitPart.THROUGHPUT in parts:
        untimed = find_untimed_reason(evaluator.architecture, workload, evaluator.device)
        throughput = evaluator.get_throughput(workload, layout, estimate)
    rules: tuple[RuleOfThumb, ...] = ()
    if FitPart.RULES_OF_THUMB in parts:
        rules = list_rules_of_thumb(evaluator, workload, layout, estimate)
    return FitReport(
        estimate=estimate,
        device=evaluator.device,
        verdict=judgement.verdict,
        headroom_bytes=judgement.headroom_bytes,
        deficit_bytes=judgement.deficit_bytes,
        rules_of_thumb=rules,
        remedies=(),
        warnings=estimate.warnings if untimed is None else (*estimate.warnings, untimed),
        throughput=throughput,
        bound_reason="" if throughput is None else describe_bound(throughput, workload),
    )


def _estimate(
    evaluator: Evaluator, workload: Workload, layout: Layout, parts: frozenset[FitPart]
) -> Estimate:
    """Return the cheapest estimate that has what the parts need.

    Its verdict is that of all parts: it is replayed where that could turn the verdict.
    """
    if parts & REPLAYED:
        return evaluator.answer(workload, layout)
    is_explained = bool(parts & EXPLAINED)
    estimate = (evaluator.evaluate if is_explained else evaluator.estimate_numbers)(
        workload, layout
    )
    if not may_turn(evaluator, workload, layout, estimate):
        return estimate
    replayed = evaluator.answer(workload, layout)
    return replayed if is_explained else _drop_explanation(replayed, estimate)


def _drop_explanation(replayed: Estimate, numbers: Estimate) -> Estimate:
    """Return the numbers of a replayed answer, unexplained."""
    return replace(
        replayed,
        components=numbers.components,
        instants=numbers.instants,
        phases=numbers.phases,
        checkpoint=numbers.checkpoint,
        warnings=numbers.warnings,
    )
