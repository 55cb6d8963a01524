"""A plan made without a server: the search in this process, by the code that HTTP goes through."""

from time import perf_counter

from msgspec import to_builtins

from service.cli.offline.inline import Document, decode, offline_model
from service.contract.schemas.plans import PlanRequest
from service.contract.to_answer.plans import plan_answer
from service.contract.to_question.plans import cluster_of, read_plan, read_prices
from service.estimator.estimate import PlanCache
from service.usecases.questions.plans import answer_plans


def plan(document: Document, _server: None) -> Document:
    """Return what ``POST /v1/plans`` would answer."""
    started_s = perf_counter()
    request = decode(document, PlanRequest)
    cluster_of(request)
    prices = read_prices(request)
    question = read_plan(request, offline_model(request.model), prices)
    report = answer_plans(question, plans=PlanCache())
    answer: Document = to_builtins(plan_answer(report, question, prices, elapsed_s=perf_counter() - started_s))
    return answer
