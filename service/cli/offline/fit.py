"""Fits without a server.

Estimator and planner run in this process, by the code that HTTP goes through.
"""

from msgspec import to_builtins

from service.cli.offline.inline import (
    Document,
    get_plan_cache,
    refuse_cluster,
    resolve_offline_model,
)
from service.contract.schemas.fit import FitRequest
from service.contract.to_answer.fits import build_fit_answer
from service.contract.to_question.fits import read_fit
from service.contract.to_question.validation_errors import decode
from service.usecases.questions.fit import judge_fit
from service.usecases.questions.remedies import answer_fit


def fit(document: Document, _server: None) -> Document:
    """Return what ``POST /v1/fit`` would answer."""
    refuse_cluster(document)
    request = decode(document, FitRequest)
    question = read_fit(request, resolve_offline_model(request.model))
    ask = answer_fit if request.remedies else judge_fit
    report = ask(question, plans=get_plan_cache())
    answer: Document = to_builtins(build_fit_answer(report, assumptions=question.assumptions))
    return answer
