"""In-process cache of models by name.

A fit asks no database for a name that was asked for before.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from service.base.errors import UnknownModelError
from service.catalog import models as catalogue
from service.estimator.model.architecture import Architecture
from service.usecases.stored import Sessions, StoredModel
from service.usecases.stored_specs import models
from service.usecases.stored_specs.model_sources import load_stored_architecture
from service.usecases.stored_specs.waiting import make_waiting_error

MAX_STORED_MODELS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """One revision of a model.

    ``hf_config`` is the config.json it came from, ``None`` where it came from our own spec.
    ``version`` is the id of the revision.

    ``checkpoints`` are ids on the Hugging Face hub of weights of this shape, the one that was asked
    for first.
    """

    name: str
    revision: int
    version: str
    architecture: Architecture
    hf_config: Mapping[str, object] | None = None
    checkpoints: tuple[str, ...] = ()


KnownNames = Callable[[], Collection[str]]
ReadModel = Callable[[str], NamedModel | None]
ReadVersions = Callable[[Collection[str]], Mapping[str, str]]


class SpecCache:
    """Cache of catalogue models and requested stored models.

    Stored models are dropped when they change.

    A catalogue name never reaches storage, since no stored model may take one. ``read_stored`` and
    ``read_versions`` ask the database: the first on a miss, the second for all cached names at
    every refresh.
    """

    def __init__(
        self,
        *,
        read_catalogue: ReadModel,
        read_stored: ReadModel,
        read_versions: ReadVersions,
        known_names: KnownNames,
    ) -> None:
        """Start empty; nothing is read before the first look-up."""
        self._read_catalogue = read_catalogue
        self._read_stored = read_stored
        self._read_versions = read_versions
        self._known_names = known_names
        self._catalogue: dict[str, NamedModel] = {}
        self._stored: OrderedDict[str, NamedModel] = OrderedDict()
        self._generation = 0
        self._lock = threading.Lock()

    def get_cached(self, name: str) -> NamedModel | None:
        """Return the model if it is known without the database.

        ``None`` does not mean that it does not exist.
        """
        if (cached := self._catalogue.get(name) or self._stored.get(name)) is not None:
            return cached
        if (model := self._read_catalogue(name)) is not None:
            self._catalogue[name] = model
        return model

    def list_kept(self) -> tuple[NamedModel, ...]:
        """Return the models that are kept; any thread may ask."""
        return (*list(self._catalogue.values()), *list(self._stored.values()))

    def get_version(self, name: str) -> str | None:
        """Return the version of a model that is known without the database."""
        cached = self.get_cached(name)
        return None if cached is None else cached.version

    def load(self, name: str) -> NamedModel | None:
        """Return the model, from the database if need be.

        ``None`` when there is none of this name.
        """
        if (cached := self.get_cached(name)) is not None:
            return cached
        generation = self._generation
        model = self._read_stored(name)
        if model is not None:
            self._remember(model, generation)
        return model

    def require(self, name: str, *, field: str = "model") -> NamedModel:
        """Return the model or refuse its name with near matches.

        The matches are names of the catalogue.
        """
        model = self.load(name)
        if model is None:
            near = get_close_matches(name, list(self._known_names()), n=3)
            hint = (
                f"Did you mean {' or '.join(near)}?" if near else "GET /v1/models lists every name."
            )
            message = f"there is no model {name!r}, neither stored nor in the catalogue. {hint}"
            raise UnknownModelError(message, errors=[{"field": field, "message": message}])
        return model

    def forget(self, name: str) -> None:
        """Drop a name, to be read again on its next look-up.

        Call it after every change.
        """
        with self._lock:
            self._generation += 1
            self._stored.pop(name, None)

    def clear(self) -> None:
        """Drop every model, to be read again on its next look-up.

        One that was recorded takes megabytes.
        """
        with self._lock:
            self._generation += 1
            self._stored.clear()
        self._catalogue = {}

    def refresh(self) -> None:
        """Drop every stored model with another revision by now, or none."""
        cached = dict(self._stored)
        if not cached:
            return
        current = self._read_versions(cached.keys())
        for name, model in cached.items():
            if current.get(name) != model.version:
                self.forget(name)

    def _remember(self, model: NamedModel, generation: int) -> None:
        with self._lock:
            # A change that came between reading and keeping would otherwise be hidden until the
            # next refresh.
            if generation != self._generation:
                return
            self._stored[model.name] = model
            while len(self._stored) > MAX_STORED_MODELS:
                self._stored.popitem(last=False)


def load_catalogue_model(name: str) -> NamedModel | None:
    """Return a model of the catalogue.

    ``None`` where there is none of this name; raises EstimatorError when it is there but cannot be
    read yet.
    """
    entry = catalogue.find_model(name)
    if entry is None:
        return None
    architecture = catalogue.load_architecture(entry)
    return NamedModel(
        name=entry.name,
        revision=1,
        version="catalogue",
        architecture=architecture,
        hf_config=catalogue.load_config(entry),
        checkpoints=catalogue.list_checkpoints(name),
    )


def load_stored_model(sessions: Sessions, name: str) -> NamedModel | None:
    """Return a stored model at its newest revision.

    Raises ModelRecordingError and ModelNotRecordedError for one without an architecture yet, which
    is read again at the next question.
    """
    stored = models.find(sessions, name)
    if stored is None:
        return None
    if stored.content.waits_for is not None:
        raise make_waiting_error(stored.content.waits_for, name=name, field="model")
    return to_named_model(stored)


def to_named_model(stored: StoredModel) -> NamedModel:
    """Return a stored revision as a named model."""
    config = stored.content.source.get("hf_config")
    return NamedModel(
        name=stored.name,
        revision=stored.revision,
        version=stored.etag,
        architecture=load_stored_architecture(stored.content),
        hf_config=config if isinstance(config, Mapping) else None,
    )
