"""Asks a published case's question as a request to ``POST /v1/fit`` would, without the server."""

from typing import Any

import msgspec

from service.catalog.models import load_config, resolve_model
from service.contract.schemas.fit import FitRequest, InlineModel
from service.contract.to_question.fits import read_fit
from service.contract.to_question.models import ResolvedModel, read_inline
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.result import Detail, Estimate
from service.usecases.questions.fit import FitQuestion
from tests.accuracy.published.rows import PublishedCase


def question_of(case: PublishedCase) -> FitQuestion:
    """Return the question; raises EstimatorError or msgspec.ValidationError for what no request may
    say.
    """
    asked: dict[str, Any] = {
        "model": case.model,
        "workload": case.workload,
        "layout": case.layout,
        "gpu": case.gpu,
    }
    request = msgspec.convert(asked, FitRequest)
    return read_fit(request, _model(request.model))


def answer_of(case: PublishedCase, plans: PlanCache) -> Estimate:
    """Return the estimator's answer."""
    question = question_of(case)
    return estimate(
        question.architecture,
        question.workload,
        layout=question.layout,
        device=question.device,
        plans=plans,
        detail=Detail.REPLAYED,
    )


def _model(reference: str | InlineModel) -> ResolvedModel:
    if isinstance(reference, InlineModel):
        return read_inline(reference)
    return ResolvedModel(
        architecture=architecture_from_config(load_config(resolve_model(reference)))
    )
