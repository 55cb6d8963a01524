"""A fit answered without a server: estimator and planner in this process, by the code that HTTP goes through."""

from msgspec import to_builtins

from service.api.answers import fit_answer
from service.api.questions import read_fit
from service.api.schemas.fit import FitRequest
from service.cli.offline import Document, decode, offline_model
from service.estimator.estimate import PlanCache
from service.usecases.fit import answer_fit, judge_fit


def fit(document: Document, _server: None) -> Document:
    """Return what ``POST /v1/fit`` would answer."""
    request = decode(document, FitRequest)
    question = read_fit(request, offline_model(request.model))
    ask = answer_fit if request.remedies else judge_fit
    report = ask(question, plans=PlanCache())
    answer: Document = to_builtins(fit_answer(report, assumptions=question.assumptions))
    return answer
