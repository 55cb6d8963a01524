"""Plans without a server.

The search runs in this process, by the code that HTTP goes through.
"""

from time import perf_counter

from msgspec import to_builtins

from service.cli.offline.inline import (
    Document,
    get_plan_cache,
    refuse_cluster,
    resolve_offline_model,
)
from service.contract.schemas.plans import PlanRequest
from service.contract.to_answer.plans import build_plan_answer
from service.contract.to_question.plans import read_cluster, read_plan, read_prices
from service.contract.to_question.validation_errors import decode
from service.usecases.questions.plans import answer_plans


def plan(document: Document, _server: None) -> Document:
    """Return what ``POST /v1/plans`` would answer."""
    refuse_cluster(document)
    started_s = perf_counter()
    request = decode(document, PlanRequest)
    read_cluster(request)
    prices = read_prices(request)
    question = read_plan(request, resolve_offline_model(request.model), prices)
    report = answer_plans(question, plans=get_plan_cache())
    answer: Document = to_builtins(
        build_plan_answer(report, question, prices, elapsed_s=perf_counter() - started_s)
    )
    return answer
