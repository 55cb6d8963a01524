"""Questions about pipelines without a server."""

from msgspec import to_builtins

from service.cli.offline.inline import Document
from service.contract.schemas.pipelines.generation import PipelineFitRequest
from service.contract.to_answer.pipelines.generation import build_generation_answer
from service.contract.to_question.generation import read_generation
from service.contract.to_question.validation_errors import decode
from service.usecases.questions.generation import answer_generation


def generate(document: Document, _server: None) -> Document:
    """Return what ``POST /v1/pipelines/fit`` would answer."""
    question = read_generation(decode(document, PipelineFitRequest))
    answer: Document = to_builtins(build_generation_answer(answer_generation(question), question))
    return answer
