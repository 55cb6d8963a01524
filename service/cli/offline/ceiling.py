"""Ceilings without a server.

The search runs in this process, by the code that HTTP goes through.
"""

from msgspec import to_builtins

from service.cli.offline.inline import Document, decode, resolve_offline_model
from service.contract.schemas.ceilings import CeilingRequest
from service.contract.to_answer.ceilings import build_ceiling_answer
from service.contract.to_question.ceilings import read_ceiling
from service.estimator.cache import PlanCache
from service.usecases.questions.ceilings import answer_ceiling


def ceiling(document: Document, _server: None) -> Document:
    """Return what ``POST /v1/ceilings`` would answer."""
    question = read_ceiling(decode(document, CeilingRequest), resolve_offline_model)
    report = answer_ceiling(question, plans=PlanCache())
    answer: Document = to_builtins(
        build_ceiling_answer(report, question.maximized, assumptions=question.assumptions)
    )
    return answer
