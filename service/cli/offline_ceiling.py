"""A ceiling found without a server: the search in this process, by the code that HTTP goes through."""

from msgspec import to_builtins

from service.api.ceiling_answers import ceiling_answer
from service.api.ceiling_questions import read_ceiling
from service.api.schemas.ceilings import CeilingRequest
from service.cli.offline import Document, decode, offline_model
from service.estimator.estimate import PlanCache
from service.usecases.ceilings import answer_ceiling


def ceiling(document: Document, _server: None) -> Document:
    """Return what ``POST /v1/ceilings`` would answer."""
    question = read_ceiling(decode(document, CeilingRequest), offline_model)
    report = answer_ceiling(question, plans=PlanCache())
    answer: Document = to_builtins(ceiling_answer(report, question.maximized, assumptions=question.assumptions))
    return answer
