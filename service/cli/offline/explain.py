"""Explanations without a server.

A log is read line by line, whatever its length.
"""

import sys
from io import BufferedReader
from pathlib import Path
from typing import cast

from msgspec import to_builtins

from service.base.errors import InvalidRequestError
from service.cli.offline.inline import Document, get_plan_cache, resolve_offline_model
from service.contract.schemas.explain.request import ExplainRequest
from service.contract.to_answer.explanations import build_explain_answer
from service.contract.to_question.contents import read_content
from service.contract.to_question.explanations import read_explained_question
from service.contract.to_question.validation_errors import decode
from service.usecases.postmortem.explain import explain_data, explain_stream
from service.usecases.postmortem.prediction import predict
from service.usecases.postmortem.values import Explanation

STDIN = "-"


def explain(document: Document, _server: None) -> Document:
    """Return what ``POST /v1/explain`` would answer.

    The log is a ``file``, or comes along as the request has it.
    """
    sent = {name: value for name, value in document.items() if name != "file"}
    request = decode(sent, ExplainRequest)
    explanation = (
        _explain_file(document["file"])
        if "file" in document
        else explain_data(read_content(request))
    )
    question, prediction = read_explained_question(request, resolve_offline_model), None
    if question is not None:
        explanation, prediction = predict(explanation, question, plans=get_plan_cache())
    answer: Document = to_builtins(build_explain_answer(explanation, prediction))
    return answer


def _explain_file(name: str) -> Explanation:
    if name == STDIN:
        return explain_stream(cast("BufferedReader", sys.stdin.buffer))
    try:
        with Path(name).open("rb") as handle:
            return explain_stream(handle)
    except OSError as error:
        message = f"cannot read {name}: {error.strerror}"
        raise InvalidRequestError(message) from None
