"""Launches read without a server, by the code that HTTP goes through."""

from msgspec import to_builtins

from service.cli.offline.inline import Document, resolve_offline_model
from service.contract.schemas.imports.launches import LaunchImportRequest
from service.contract.to_answer.imports.launches import build_launch_answer
from service.contract.to_question.launches import read_launch_request
from service.contract.to_question.validation_errors import decode


def launch(document: Document, _server: None) -> Document:
    """Return what ``POST /v1/launches/import`` would answer."""
    request = decode(document, LaunchImportRequest)
    answer: Document = to_builtins(
        build_launch_answer(read_launch_request(request, resolve_offline_model))
    )
    return answer
