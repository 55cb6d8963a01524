"""Renderings of fits without a server."""

from msgspec import to_builtins

from service.cli.offline.inline import (
    Document,
    get_plan_cache,
    refuse_cluster,
    resolve_offline_model,
)
from service.contract.schemas.formats.renderings import RenderingRequest
from service.contract.to_answer.formats.renderings import build_rendering_answer
from service.contract.to_question.formats.renderings import read_rendering
from service.contract.to_question.validation_errors import decode
from service.usecases.questions.fit import judge_fit


def rendering(document: Document, _server: None) -> Document:
    """Return what ``POST /v1/formats/{word}`` would answer; the word is the ``format``."""
    refuse_cluster(document)
    body = {name: value for name, value in document.items() if name != "format"}
    request = decode(body, RenderingRequest)
    question = read_rendering(document["format"], request, resolve_offline_model(request.model))
    report = judge_fit(question.fit, plans=get_plan_cache())
    answer: Document = to_builtins(build_rendering_answer(question, report))
    return answer
