"""Answers without a server: catalogue, estimator and planner in this process, by the code that HTTP goes through."""

from difflib import get_close_matches
from time import perf_counter
from typing import Any, TypeVar

from msgspec import ValidationError, convert, to_builtins

from service.api.answers import fit_answer
from service.api.hints import explain
from service.api.plan_answers import how_many_answer
from service.api.questions import ResolvedModel, read_fit, read_how_many, read_inline
from service.api.schemas.fit import FitRequest, InlineModel, ModelReference
from service.api.schemas.how_many import HowManyRequest
from service.catalog.models import ModelEntry, list_models, load_architecture, resolve_model
from service.errors import UnknownModelError
from service.estimator.estimate import PlanCache
from service.usecases.fit import answer_fit
from service.usecases.how_many import answer_how_many

T = TypeVar("T")
Document = dict[str, Any]


def fit(document: Document, _server: None) -> Document:
    """Return what ``POST /v1/fit`` would answer."""
    request = decode(document, FitRequest)
    question = read_fit(request, _model(request.model))
    report = answer_fit(question, plans=PlanCache())
    answer: Document = to_builtins(fit_answer(report, assumptions=question.assumptions))
    return answer


def how_many(document: Document, _server: None) -> Document:
    """Return what ``GET /v1/how-many`` would answer."""
    started_s = perf_counter()
    request = decode(document, HowManyRequest)
    question = read_how_many(request, _model(request.model))
    found = answer_how_many(question, plans=PlanCache())
    answer: Document = to_builtins(
        how_many_answer(found, assumptions=question.assumptions, elapsed_s=perf_counter() - started_s)
    )
    return answer


def decode(document: object, kind: type[T]) -> T:
    """Return a request that the contract would take, or refuse it in the contract's words."""
    try:
        return convert(document, kind, strict=True)
    except ValidationError as error:
        raise explain(error, kind, document) from None


def _model(reference: ModelReference) -> ResolvedModel:
    if isinstance(reference, InlineModel):
        return read_inline(reference)
    entry = _entry(reference)
    return ResolvedModel(architecture=load_architecture(entry), name=entry.name, revision=1)


def _entry(name: str) -> ModelEntry:
    try:
        return resolve_model(name)
    except UnknownModelError as error:
        nearest = get_close_matches(name.casefold(), [entry.name for entry in list_models()], n=3, cutoff=0.0)
        said = error.detail if "Did you mean" in error.detail else f"{error.detail} Nearest names: {', '.join(nearest)}."
        message = f"{said} What is stored on a server is found with --server URL."
        raise UnknownModelError(message) from None
