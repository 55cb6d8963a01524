"""Models of requests: named, brought along, or spelled in words."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from msgspec import UnsetType

from service.base.errors import InvalidRequestError
from service.catalog.listed_models import load_listed_architecture
from service.catalog.spellings import read_spelling
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.fit import InlineModel, ModelReference
from service.contract.schemas.models import ModelSource as StoredSource
from service.contract.to_question.heads import put_head_in_source
from service.contract.to_question.hub import FetchModel, expand_inline, read_hub, refuse_hub
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.synthetic import build_synthetic_architecture
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.errors import EstimatorError
from service.usecases.recordings.configs import get_recorded_config
from service.usecases.stored_specs.checkpoints import Checkpoint, read_header, read_index
from service.usecases.stored_specs.model_sources import list_source_warnings, read_source

INLINE = ("hf_config", "architecture", "num_parameters", "name", "gguf", "recording", "hub")


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
    """Model that a request named or brought along.

    ``name`` and ``revision`` are ``None`` when it came inline. ``checkpoints`` are ids on the
    Hugging Face hub of weights of this shape, none where only the caller knows them.
    """

    architecture: Architecture
    name: str | None = None
    revision: int | None = None
    hf_config: Mapping[str, object] | None = None
    checkpoints: tuple[str, ...] = ()
    version: str | None = None
    """Id of the revision, by which caches tell that the model has changed."""
    has_other_head: bool = False
    """Whether a request gave the named model another head: its files are not those of the name."""
    notes: tuple[str, ...] = ()
    """How the request's text was read, where it is no name of a model."""


@contextmanager
def prefix_error_field(prefix: str) -> Iterator[None]:
    """Prefix the field of a refusal with its section.

    The section is the part of the request that the refusal is about.
    """
    try:
        yield
    except EstimatorError as error:
        error.field = f"{prefix}.{error.field}" if error.field else prefix
        raise


def resolve_reference(
    reference: ModelReference,
    find: Callable[[str], ResolvedModel],
    fetch: FetchModel = refuse_hub,
) -> ResolvedModel:
    """Return the model of a request, with the head it asks for."""
    if isinstance(reference, str):
        return find(reference)
    require_one(reference, INLINE, "model")
    on_hub = read_hub(reference, fetch, "model")
    if on_hub is not None:
        model = read_inline(expand_inline(reference, on_hub))
        return replace(model, checkpoints=(on_hub.repository,))
    named = get_or_none(reference.name)
    if named is None:
        return read_inline(reference)
    model = find(named)
    source = _get_source(model)
    with prefix_error_field("model"):
        changed = put_head_in_source(source, reference.head, reference.num_labels)
        if changed is source:
            return model
        architecture = read_source(changed)
    return replace(
        model,
        architecture=architecture,
        hf_config=changed.get("hf_config"),
        checkpoints=(),
        has_other_head=True,
    )


def _get_source(model: ResolvedModel) -> dict[str, Any]:
    """Return what another head is put into."""
    if is_recorded(model.architecture):
        return {"recording": model.architecture}
    if model.hf_config is None:
        return {"architecture": model.architecture.describe()}
    return {"hf_config": model.hf_config}


def read_inline(reference: InlineModel) -> ResolvedModel:
    """Return the model that a request brings along."""
    with prefix_error_field("model"):
        sent = put_head_in_source(
            require_one(reference, INLINE, "model"), reference.head, reference.num_labels
        )
    ((kind, value),) = sent.items()
    if kind == "num_parameters":
        return ResolvedModel(architecture=build_synthetic_architecture(value), hf_config=None)
    with prefix_error_field(f"model.{kind}"):
        architecture = read_source(sent)
    origin = get_or_none(reference.origin)
    return ResolvedModel(
        architecture=architecture,
        hf_config=get_recorded_config(value)
        if kind == "recording"
        else value
        if kind == "hf_config"
        else None,
        notes=(
            *(() if origin is None else (f"model read from {origin}",)),
            *list_source_warnings(sent, architecture, read_files(reference, "model")),
        ),
    )


def read_files(sent: InlineModel | StoredSource, field: str) -> Checkpoint | None:
    """Return what the checkpoint's files hold.

    They are described once, by an index or by a header.
    """
    index, header = get_or_none(sent.safetensors_index), get_or_none(sent.safetensors_header)
    if index is not None and header is not None:
        message = (
            f"{field} has a safetensors_index and a safetensors_header; give the one that the "
            "checkpoint has"
        )
        raise InvalidRequestError(
            message, errors=[{"field": f"{field}.safetensors_header", "message": message}]
        )
    if index is not None:
        return read_index(index, field=field)
    return None if header is None else read_header(header, field=field)


def read_spelled(
    text: str, find: Callable[[str], ResolvedModel], *, field: str = "model"
) -> ResolvedModel:
    """Return the model that a text means which is no name.

    ``find`` resolves a name of the catalogue. Raises UnknownModelError with what would be right.
    """
    spelling = read_spelling(text, field=field)
    notes, checkpoint = (spelling.note,), spelling.checkpoint
    if spelling.entry is not None:
        model = find(spelling.entry.name)
        checkpoints = model.checkpoints if checkpoint is None else (checkpoint,)
        return replace(model, notes=notes, checkpoints=checkpoints)
    if checkpoint is not None:
        return ResolvedModel(
            architecture=load_listed_architecture(checkpoint),
            hf_config=spelling.config,
            checkpoints=(checkpoint,),
            notes=notes,
        )
    assert spelling.num_parameters is not None  # noqa: S101 - a spelling is one or the other
    return ResolvedModel(
        architecture=build_synthetic_architecture(spelling.num_parameters), notes=notes
    )


def require_one(sent: object, names: tuple[str, ...], field: str) -> dict[str, Any]:
    """Return the one field out of ``names`` that is set.

    Refuses none and several.
    """
    values = {
        name: value for name in names if not isinstance(value := getattr(sent, name), UnsetType)
    }
    if len(values) != 1:
        message = (
            f"{field} has {', '.join(values) or 'nothing'}; it must have exactly one of "
            f"{', '.join(names)}"
        )
        raise InvalidRequestError(message, errors=[{"field": field, "message": message}])
    return values
