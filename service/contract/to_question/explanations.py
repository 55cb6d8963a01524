"""Requests to explain a failure as bytes and a question."""

from collections.abc import Callable

from service.base.errors import InvalidRequestError
from service.contract.schemas.explain.request import ExplainRequest
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.fit import FitRequest, ModelReference
from service.contract.schemas.imports.launches import LaunchImportRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.launches import read_launch_request
from service.contract.to_question.models import ResolvedModel, prefix_error_field
from service.contract.to_question.validation_errors import decode
from service.usecases.questions.fit import FitQuestion


def read_explained_question(
    request: ExplainRequest, resolve: Callable[[ModelReference], ResolvedModel]
) -> FitQuestion | None:
    """Return what is said to have run, ``None`` where nobody says it.

    It is a question, or the launch that asks one.
    """
    question, launch = get_or_none(request.question), get_or_none(request.launch)
    if launch is not None:
        if question is not None:
            message = "say what ran once: by a question or by its launch"
            raise InvalidRequestError(message, errors=[{"field": "launch", "message": message}])
        question = _read_launch(launch, resolve)
    if question is None:
        return None
    with prefix_error_field("question" if launch is None else "launch"):
        return read_fit(question, resolve(question.model))


def _read_launch(
    launch: LaunchImportRequest, resolve: Callable[[ModelReference], ResolvedModel]
) -> FitRequest:
    """Return the fit request of a launch, or refuse its gaps."""
    with prefix_error_field("launch"):
        launched = read_launch_request(launch, resolve)
    if launched.missing:
        gaps = ", ".join(launched.missing)
        message = f"the launch does not say {gaps}: say it beside the launch"
        errors = [{"field": f"launch.{field}", "message": message} for field in launched.missing]
        raise InvalidRequestError(message, errors=errors)
    return decode(launched.document, FitRequest)
