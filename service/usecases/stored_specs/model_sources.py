"""Model sources as sent, and their architectures; pure."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import Any

from service.base.errors import InvalidRequestError
from service.catalog.models import ModelEntry, load_architecture
from service.catalog.recorded_models import read_packed_recording
from service.db.records.models import ModelContent
from service.db.records.recordings import Recording
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import (
    architecture_from_config,
    architecture_from_spec,
)
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.model.weights.scheme import read_scheme
from service.estimator.values.errors import UnknownModelTypeError
from service.formats.checkpoints.gguf_document import GgufModel
from service.formats.checkpoints.gguf_model import build_gguf_architecture, list_gguf_differences
from service.usecases.recordings.configs import get_recorded_config
from service.usecases.recordings.shipped import find_shipped_recording
from service.usecases.stored_specs.checkpoints import (
    Checkpoint,
    find_disagreements,
    read_checkpoint,
)

Source = Mapping[str, object]
"""``{"hf_config": {…config.json…}}``, ``{"architecture": {…our own spec…}}`` or ``{"gguf": {…the
header of a file…}}``.
"""

MAX_PARAMETERS = 2**63 - 1
"""Largest value of a signed 64-bit column."""


def read_source(source: Source) -> Architecture:
    """Return the architecture of a source.

    Raises EstimatorError for what no family can read.
    """
    kinds = ", ".join(_READERS)
    match tuple(source.items()):
        case ((str(kind), Mapping() as document),) if kind in _READERS:
            return _READERS[kind](document)
        case _:
            message = (
                f"source has {', '.join(sorted(source)) or 'nothing'}; it must have exactly one "
                f"object out of {kinds}"
            )
            raise InvalidRequestError(message, errors=[{"field": "source", "message": message}])


def make_content(
    source: Source, *, checkpoint: Checkpoint | None = None, hub: Source | None = None
) -> ModelContent:
    """Return what is stored of a model.

    It is its source, the sums of its files, where on a hub it was read, and everything that follows
    from it.
    """
    architecture = read_source(source)
    recording = None
    if is_recorded(architecture):
        packed, config = _pack_source(source)
        recording = Recording(digest=architecture.recorded.digest, packed=packed)
        source = {} if config is None else {"hf_config": config}
    if "gguf" in source:
        source = {"gguf": GgufModel.parse(source["gguf"]).describe()}  # type: ignore[arg-type]  # read_source took it
    described = describe_architecture(architecture)
    if checkpoint is not None and checkpoint.tensors:
        lines = list_source_warnings(source, architecture, checkpoint)
        checkpoint = replace(checkpoint, tensors=(), differences=tuple(lines[1:]))
    return ModelContent(
        source={
            **source,
            **({} if checkpoint is None else {"checkpoint": checkpoint.describe()}),
            **({} if hub is None else {"hub": hub}),
        },
        **described,
        recording=recording,
    )


def describe_architecture(architecture: Architecture) -> dict[str, Any]:
    """Return the fields of a model's content that follow from its architecture.

    Raises InvalidRequestError for more parameters than can be stored.
    """
    counts = architecture.parameter_counts()
    if counts.total > MAX_PARAMETERS:
        message = (
            f"this model has {counts.total:,} parameters; at most {MAX_PARAMETERS:,} can be stored"
        )
        raise InvalidRequestError(message, errors=[{"field": "source", "message": message}])
    return {
        "architecture": architecture.describe(),
        "family": architecture.family,
        "fingerprint": architecture.fingerprint(),
        "num_parameters": counts.total,
        "num_active_parameters": counts.active,
        "num_embedding_parameters": counts.embedding,
        "parameters_by_module": dict(counts.by_module),
    }


def _pack_source(source: Source) -> tuple[bytes, Mapping[str, object] | None]:
    """Return the recording of a source as stored, and its config."""
    document, config = source.get("recording"), source.get("hf_config")
    if isinstance(document, Mapping):
        return _pack(document), get_recorded_config(document)
    assert isinstance(config, Mapping)  # noqa: S101 - read_source took it
    entry = _find_recording(config)
    assert entry is not None  # noqa: S101 - as above
    return read_packed_recording(entry.name), config


def _read_config(config: Mapping[str, object]) -> Architecture:
    """Return the architecture of a config.json.

    A type that has no module may be one that a recording of this release answers for, with weights
    that are packed or not.
    """
    try:
        return architecture_from_config(config)
    except UnknownModelTypeError:
        entry = _find_recording(config)
        if entry is None:
            raise
        quantization = _load_quantization().read_quantization(config)
        return replace(load_architecture(entry), quantization=quantization)


def _find_recording(config: Mapping[str, object]) -> ModelEntry | None:
    """Return the shipped recording of a model, of packed weights too."""
    return find_shipped_recording(
        {name: value for name, value in config.items() if name != "quantization_config"}
    )


def load_stored_architecture(content: ModelContent) -> Architecture:
    """Return the architecture of a stored revision.

    It comes from its own spec: the source is not read again. A model that waits for its recording
    has none.
    """
    recording = content.recording
    if recording is not None:
        model: Architecture = _load_documents().load_recording(recording.digest, recording.packed)
        scheme = content.architecture.get("quantization")
        if isinstance(scheme, Mapping):
            return replace(model, quantization=read_scheme(scheme))
        return model
    return architecture_from_spec(content.architecture)


def list_warnings(content: ModelContent) -> list[str]:
    """Return the warnings of a stored revision.

    They say where its files hold other bytes than its tree.
    """
    source, model = content.source, load_stored_architecture(content)
    return list_source_warnings(source, model, read_checkpoint(source.get("checkpoint")))


def list_source_warnings(
    source: Source, model: Architecture, checkpoint: Checkpoint | None
) -> list[str]:
    """Return differences of bytes between files and tree."""
    gguf, config = source.get("gguf"), source.get("hf_config")
    if isinstance(gguf, Mapping):
        return list(list_gguf_differences(GgufModel.parse(gguf), model))
    if checkpoint is None:
        return []
    return list(
        find_disagreements(model, checkpoint, config if isinstance(config, Mapping) else {})
    )


def _load_quantization() -> ModuleType:
    """Load what reads packed weights, which other models do not need."""
    return import_module("service.estimator.model.quantization.configs")


def _load_documents() -> ModuleType:
    """Load what reads recordings, which written families do not need."""
    return import_module("service.usecases.recordings.documents")


def _pack(document: Mapping[str, object]) -> bytes:
    packed: bytes = _load_documents().pack_document(document)
    return packed


def _read_recording(document: Mapping[str, object]) -> Architecture:
    model: Architecture = _load_documents().read_document(document)
    return model


_READERS: Mapping[str, Callable[[Mapping[str, object]], Architecture]] = {
    "hf_config": _read_config,
    "architecture": architecture_from_spec,
    "gguf": build_gguf_architecture,
    "recording": _read_recording,
}
