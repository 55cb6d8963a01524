"""Answers to costly questions, in any process."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from service.api.computing.means import Means
from service.catalog.gpus import resolve_device
from service.contract.encoding import encode
from service.contract.to_answer.ceilings import build_ceiling_answer
from service.contract.to_answer.how_many import build_how_many_answer, render_how_many_text
from service.contract.to_answer.plans import build_plan_answer
from service.contract.to_question.plans import PriceBook
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.planner.cluster.placement import Supply
from service.planner.fit.fit import FitReport
from service.planner.plans.offered import SearchCounts
from service.usecases.postmortem.prediction import Prediction, predict
from service.usecases.postmortem.values import Explanation
from service.usecases.questions.ceilings import CeilingQuestion, answer_ceiling
from service.usecases.questions.fit import FitQuestion, judge_fit
from service.usecases.questions.generation import (
    GenerationQuestion,
    GenerationReport,
    answer_generation,
)
from service.usecases.questions.how_many import HowManyQuestion, answer_how_many
from service.usecases.questions.placement import place_plans
from service.usecases.questions.plans import PlanQuestion, answer_plans
from service.usecases.questions.remedies import add_fit_remedies


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanJob:
    """Resolved question with its prices and any cluster.

    ``warnings`` are about what is known of the cluster by now.
    """

    question: PlanQuestion
    prices: PriceBook
    supply: Supply | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CountJob:
    """Question for a number, and the form of its answer."""

    question: HowManyQuestion
    as_text: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyJob:
    """Fit, and the question that it answers."""

    report: FitReport
    question: FitQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureJob:
    """A log of a run, and the question that ran."""

    explanation: Explanation
    question: FitQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """Encoded answer, and how many layouts were searched for it."""

    body: bytes
    layouts: int
    estimated: int


def answer_plan(job: PlanJob, means: Means) -> SearchAnswer:
    """Return the best GPUs and their layouts."""
    started = perf_counter()
    question, prices, supply = job.question, job.prices, job.supply
    answer = partial(answer_plans, plans=means.plans, find_corrections=means.find)
    if supply is None:
        report = answer(question)
        built = build_plan_answer(report, question, prices, elapsed_s=perf_counter() - started)
    else:
        placed = place_plans(
            question, supply, answer, device_of=resolve_device, price_of=prices.get_price
        )
        report = placed.report
        built = build_plan_answer(
            report,
            question,
            prices,
            elapsed_s=perf_counter() - started,
            placements=placed.placements,
            warnings=job.warnings,
        )
    return _finish(encode(built), [offered.plan.searched for offered in report.plans.offer_plans])


def find_ceiling(question: CeilingQuestion, means: Means) -> SearchAnswer:
    """Return the largest value that fits."""
    report = answer_ceiling(
        question,
        plans=means.plans,
        find_corrections=means.find,
    )
    answer = build_ceiling_answer(
        report, question.maximized, assumptions=question.assumptions, cluster=question.cluster
    )
    evaluated = report.ceiling.num_evaluated
    return SearchAnswer(body=encode(answer), layouts=evaluated, estimated=evaluated)


def count_gpus(job: CountJob, means: Means) -> SearchAnswer:
    """Return the smallest number of GPUs, with its layouts or alone."""
    started, question = perf_counter(), job.question
    plans = answer_how_many(question, plans=means.plans, find_corrections=means.find)
    body = (
        render_how_many_text(plans).encode()
        if job.as_text
        else encode(build_how_many_answer(plans, question, elapsed_s=perf_counter() - started))
    )
    return _finish(body, [plan.searched for _, plan in plans])


@dataclass(frozen=True, slots=True, kw_only=True)
class FewestGpus:
    """Fewest GPUs of one kind, and what runs there.

    None where no number is enough.
    """

    num_gpus: int | None
    layout: Layout | None = None
    workload: Workload | None = None


def find_fewest(question: HowManyQuestion, means: Means) -> FewestGpus:
    """Return the fewest GPUs of the question's first kind."""
    [(_, plan), *_] = answer_how_many(question, plans=means.plans, find_corrections=means.find)
    if plan.num_gpus is None:
        return FewestGpus(num_gpus=None)
    best = plan.candidates[0]
    return FewestGpus(num_gpus=plan.num_gpus, layout=best.layout, workload=best.workload)


def _finish(body: bytes, searched: Sequence[SearchCounts]) -> SearchAnswer:
    return SearchAnswer(
        body=body,
        layouts=sum(counts.layouts for counts in searched),
        estimated=sum(counts.estimated for counts in searched),
    )


def judge(question: FitQuestion, means: Means) -> FitReport:
    """Return the fit without remedies."""
    return judge_fit(question, plans=means.plans, find_corrections=means.find)


def add_remedies(job: RemedyJob, means: Means) -> FitReport:
    """Return the fit with the remedies that are asked for."""
    return add_fit_remedies(job.report, job.question, means.plans, means.find)


def predict_failure(job: FailureJob, means: Means) -> tuple[Explanation, Prediction]:
    """Return why a run failed, beside its prediction."""
    return predict(job.explanation, job.question, plans=means.plans, find_corrections=means.find)


def judge_call(question: GenerationQuestion, means: Means) -> GenerationReport:
    """Return the fit of a pipeline's call."""
    return answer_generation(question, check=means.check)
