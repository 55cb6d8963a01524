"""Fit questions with remedies, by the catalogue's GPUs and prices; pure."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module

from service.catalog.prices import list_prices
from service.estimator.cache import PlanCache
from service.estimator.values.device import Device
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.fit import FitReport
from service.planner.fit.parts import FitPart
from service.planner.fit.verdict import Verdict
from service.usecases.questions.fit import (
    FindCorrections,
    FitQuestion,
    in_cluster,
    judge_fit,
    make_question_evaluator,
)

LargerGpus = Callable[[Device], Iterable[Evaluator]]
_UNKNOWN, _USUAL = "unknown", "nvidia"
"""Maker of a GPU that is only a number of bytes, and whose GPUs are named in its place."""


def answer_fit(
    question: FitQuestion, *, plans: PlanCache, find_corrections: FindCorrections | None = None
) -> FitReport:
    """Return the fit with its remedies.

    Raises EstimatorError for what cannot run or has no term yet.
    """
    return add_fit_remedies(
        judge_fit(question, plans=plans, find_corrections=find_corrections),
        question,
        plans,
        find_corrections,
    )


def add_fit_remedies(
    report: FitReport,
    question: FitQuestion,
    plans: PlanCache,
    find_corrections: FindCorrections | None = None,
) -> FitReport:
    """Add the requested remedies to a report.

    GPUs and prices are the catalogue's.
    """
    if FitPart.REMEDIES not in question.parts or report.verdict is Verdict.FITS:
        return report
    # What fits needs none of the modules that search.
    find = import_module("service.planner.remedies.find")

    larger: LargerGpus = import_module("service.usecases.questions.larger_gpus").make_larger_gpus(
        question.architecture,
        plans=plans,
        find_corrections=in_cluster(find_corrections, question.cluster),
        level=question.level,
    )
    prices = {name: price.usd_per_gpu_hour for name, price in list_prices().items()}
    helped: FitReport = find.add_remedies(
        report,
        make_question_evaluator(question, plans, find_corrections),
        question.workload,
        question.layout,
        find.Market(other_gpus=lambda device: larger(_get_made(device)), prices=prices),
    )
    return helped


def _get_made(device: Device) -> Device:
    """Return a GPU of an unknown maker as one of the usual."""
    return replace(device, vendor=_USUAL) if device.vendor == _UNKNOWN else device
