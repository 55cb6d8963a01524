"""Ceilings without a server.

The search runs in this process, by the code that HTTP goes through.
"""

from msgspec import to_builtins

from service.cli.offline.inline import (
    Document,
    get_plan_cache,
    refuse_cluster,
    resolve_offline_model,
)
from service.contract.schemas.ceilings import CeilingRequest
from service.contract.to_answer.ceilings import build_ceiling_answer
from service.contract.to_question.ceilings import read_ceiling
from service.contract.to_question.validation_errors import decode
from service.usecases.questions.ceilings import answer_ceiling


def ceiling(document: Document, _server: None) -> Document:
    """Return what ``POST /v1/ceilings`` would answer."""
    refuse_cluster(document)
    question = read_ceiling(decode(document, CeilingRequest), resolve_offline_model)
    report = answer_ceiling(question, plans=get_plan_cache())
    answer: Document = to_builtins(
        build_ceiling_answer(report, question.maximized, assumptions=question.assumptions)
    )
    return answer
