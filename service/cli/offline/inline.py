"""Questions without a server: decoded by the contract's schemas, models from the catalogue or a file."""

from difflib import get_close_matches
from typing import Any, TypeVar

from msgspec import ValidationError, convert

from service.base.errors import UnknownModelError
from service.catalog.models import ModelEntry, checkpoints_of, list_models, load_architecture, resolve_model
from service.contract.schemas.fit import InlineModel, ModelReference
from service.contract.to_question.fits import ResolvedModel, read_inline
from service.contract.to_question.validation_errors import explain

T = TypeVar("T")
Document = dict[str, Any]


def decode(document: object, kind: type[T]) -> T:
    """Return a request that the contract would take, or refuse it in the contract's words."""
    try:
        return convert(document, kind, strict=True)
    except ValidationError as error:
        raise explain(error, kind, document) from None


def offline_model(reference: ModelReference) -> ResolvedModel:
    """Return a model that the request brings along or that the catalogue has."""
    if isinstance(reference, InlineModel):
        return read_inline(reference)
    entry = _entry(reference)
    return ResolvedModel(
        architecture=load_architecture(entry), name=entry.name, revision=1, checkpoints=checkpoints_of(reference)
    )


def _entry(name: str) -> ModelEntry:
    try:
        return resolve_model(name)
    except UnknownModelError as error:
        nearest = get_close_matches(name.casefold(), [entry.name for entry in list_models()], n=3, cutoff=0.0)
        said = error.detail if "Did you mean" in error.detail else f"{error.detail} Nearest names: {', '.join(nearest)}."
        message = f"{said} What is stored on a server is found with --server URL."
        raise UnknownModelError(message) from None
