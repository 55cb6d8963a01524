"""The catalogue of well-known models by name.

Each has a config.json file, read only when it is asked for.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from service.base.errors import UnknownModelError
from service.catalog.recorded_models import (
    load_packed_architecture,
    load_recorded_architecture,
    read_packed_config,
    read_packed_index,
    read_recorded_config,
    read_recordings_index,
)
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import EstimatorError, NotModelledError, UnknownModelTypeError

_INDEX = Path(__file__).with_name("models.json")
_CONFIGS = Path(__file__).with_name("configs")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """A model of the catalogue.

    ``aliases`` are names on the Hugging Face hub whose config.json has the same shape. ``source``
    says where its config.json was taken from. ``recording`` is the digest of the recording that
    answers for it, where no module is written for its type; ``required`` are the fields, as paths,
    that a config.json must say to have this recording, since its class has other defaults. ``base``
    is the entry with that recording, of the same model, whose weights this one has packed.
    """

    name: str
    model_type: str
    source: str
    aliases: tuple[str, ...]
    recording: str | None = None
    required: tuple[str, ...] = ()
    base: str | None = None

    @property
    def supported(self) -> bool:
        """Whether the estimator can read the model.

        Every config is tried once and the answer cached.
        """
        return self.recording is not None or _is_supported(self.name)


@cache
def list_models() -> tuple[ModelEntry, ...]:
    """Return the models with modules by name."""
    return _make_entries(json.loads(_INDEX.read_bytes()))


@cache
def list_recorded_models() -> tuple[ModelEntry, ...]:
    """Return the models that recordings of this release answer for, by name."""
    return _make_entries(read_recordings_index())


@cache
def list_packed_models() -> tuple[ModelEntry, ...]:
    """Return the models with packed weights of recordings, by name."""
    return _make_entries(read_packed_index())


def list_all_models() -> tuple[ModelEntry, ...]:
    """Return the whole catalogue by name, recorded models too."""
    entries = (*list_models(), *list_recorded_models(), *list_packed_models())
    return tuple(sorted(entries, key=lambda entry: entry.name))


def _make_entries(index: Mapping[str, Mapping[str, Any]]) -> tuple[ModelEntry, ...]:
    return tuple(
        ModelEntry(
            name=name,
            model_type=raw["model_type"],
            source=raw["source"],
            aliases=tuple(raw["aliases"]),
            recording=raw.get("recording"),
            required=tuple(raw.get("required", ())),
            base=raw.get("base"),
        )
        for name, raw in index.items()
    )


@cache
def list_model_names() -> frozenset[str]:
    """Return every name and alias.

    No stored model may take one of these.
    """
    return frozenset((*_index_by_name(), *_index_recorded_by_name()))


def find_model(name: str) -> ModelEntry | None:
    """Return the entry with this name or alias, or ``None``.

    Recorded models are read for a name that no other has.
    """
    return (
        _index_by_name().get(name)
        or _index_by_folded_name().get(name.casefold())
        or _index_recorded_by_name().get(name.casefold())
    )


def resolve_model(name: str, *, field: str = "model") -> ModelEntry:
    """Return the entry with this name or alias, or raise UnknownModelError."""
    entry = find_model(name)
    if entry is None:
        message = f"Model {name!r} is not in the catalogue."
        raise UnknownModelError(message, errors=[{"field": field, "message": message}])
    return entry


def list_checkpoints(name: str) -> tuple[str, ...]:
    """Return the Hugging Face hub ids that a catalogue name may mean.

    An alias means itself, any other name all aliases of its entry.
    """
    entry = find_model(name)
    if entry is None:
        return ()
    matching_aliases = tuple(
        alias for alias in entry.aliases if alias.casefold() == name.casefold()
    )
    return matching_aliases or entry.aliases


def load_config(entry: ModelEntry) -> Mapping[str, object]:
    """Return the model's config.json."""
    if entry.base is not None:
        return read_packed_config(entry.name)
    if entry.recording is not None:
        return read_recorded_config(entry.name)
    config: dict[str, object] = json.loads((_CONFIGS / f"{entry.name}.json").read_bytes())
    return config


def load_architecture(entry: ModelEntry) -> Architecture:
    """Return the model's architecture.

    Raises NotModelledError for a model that the estimator cannot read yet.
    """
    if entry.base is not None:
        return load_packed_architecture(entry.name)
    if entry.recording is not None:
        return load_recorded_architecture(entry.name)
    try:
        return _architecture(entry.name)
    except UnknownModelTypeError as error:
        what = f"catalogue model {entry.name!r} (model_type {error.model_type!r})"
        raise NotModelledError(what, field="model", modelled=error.known_types) from error


def list_supported_models() -> tuple[str, ...]:
    """Return the names of the models that the estimator can read."""
    return tuple(entry.name for entry in list_models() if entry.supported)


def forget_architectures() -> None:
    """Forget the models that were read, with what hangs on them."""
    _architecture.cache_clear()
    load_recorded_architecture.cache_clear()
    load_packed_architecture.cache_clear()


@cache
def _architecture(name: str) -> Architecture:
    return architecture_from_config(load_config(_index_by_name()[name]))


@cache
def _is_supported(name: str) -> bool:
    try:
        _architecture(name)
    except EstimatorError:
        return False
    return True


@cache
def _index_by_name() -> Mapping[str, ModelEntry]:
    return {name: entry for entry in list_models() for name in (*entry.aliases, entry.name)}


@cache
def _index_by_folded_name() -> Mapping[str, ModelEntry]:
    return {name.casefold(): entry for name, entry in _index_by_name().items()}


@cache
def _index_recorded_by_name() -> Mapping[str, ModelEntry]:
    return {
        name.casefold(): entry
        for entry in (*list_recorded_models(), *list_packed_models())
        for name in (*entry.aliases, entry.name)
    }
