"""Answers to how-many questions without a server.

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
from service.contract.schemas.how_many import HowManyRequest
from service.contract.to_answer.how_many import build_how_many_answer
from service.contract.to_question.searches import read_how_many
from service.contract.to_question.validation_errors import decode
from service.usecases.questions.how_many import answer_how_many


def how_many(document: Document, _server: None) -> Document:
    """Return what ``GET /v1/how-many`` would answer."""
    refuse_cluster(document)
    started_s = perf_counter()
    request = decode(document, HowManyRequest)
    question = read_how_many(request, resolve_offline_model(request.model))
    plans = answer_how_many(question, plans=get_plan_cache())
    answer: Document = to_builtins(
        build_how_many_answer(plans, question, elapsed_s=perf_counter() - started_s),
    )
    return answer
