"""Models by name, at hand in the process: a fit asks no database for a name that was asked before."""

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
from service.usecases.stored_specs.model_sources import stored_architecture

MAX_STORED_MODELS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """One revision of a model; ``hf_config`` is the config.json it came from, ``None`` where it came from our own spec.

    ``version`` is the id of the revision.
    ``checkpoints`` are ids on the Hugging Face hub of weights of this shape, the one that was asked for first.
    """

    name: str
    revision: int
    version: str
    architecture: Architecture
    hf_config: Mapping[str, object] | None = None
    checkpoints: tuple[str, ...] = ()


KnownNames = Callable[[], Collection[str]]
Read = Callable[[str], NamedModel | None]
ReadVersions = Callable[[Collection[str]], Mapping[str, str]]


class SpecBook:
    """The catalogue and the stored models that were asked for, the latter forgotten when they change.

    A catalogue name never reaches storage, since no stored model may take one. ``read_stored`` and ``read_versions`` ask
    the database: the first on a miss, the second for all names that are kept at every refresh.
    """

    def __init__(
        self, *, read_catalogue: Read, read_stored: Read, read_versions: ReadVersions, known_names: KnownNames
    ) -> None:
        """Start empty; nothing is read before somebody asks."""
        self._read_catalogue = read_catalogue
        self._read_stored = read_stored
        self._read_versions = read_versions
        self._known_names = known_names
        self._catalogue: dict[str, NamedModel] = {}
        self._stored: OrderedDict[str, NamedModel] = OrderedDict()
        self._generation = 0
        self._lock = threading.Lock()

    def at_hand(self, name: str) -> NamedModel | None:
        """Return the model if no database is needed to know it; ``None`` does not mean that it does not exist."""
        if (known := self._catalogue.get(name) or self._stored.get(name)) is not None:
            return known
        if (found := self._read_catalogue(name)) is not None:
            self._catalogue[name] = found
        return found

    def load(self, name: str) -> NamedModel | None:
        """Return the model, from the database if need be; ``None`` when there is none of this name."""
        if (known := self.at_hand(name)) is not None:
            return known
        generation = self._generation
        found = self._read_stored(name)
        if found is not None:
            self._keep(found, generation)
        return found

    def require(self, name: str, *, field: str = "model") -> NamedModel:
        """Return the model; refuse an unknown name with the nearest of the catalogue."""
        found = self.load(name)
        if found is None:
            near = get_close_matches(name, list(self._known_names()), n=3)
            hint = f"Did you mean {' or '.join(near)}?" if near else "GET /v1/models lists every name."
            message = f"there is no model {name!r}, neither stored nor in the catalogue. {hint}"
            raise UnknownModelError(message, errors=[{"field": field, "message": message}])
        return found

    def forget(self, name: str) -> None:
        """Read this name again when it is next asked for; to be called after every change."""
        with self._lock:
            self._generation += 1
            self._stored.pop(name, None)

    def refresh(self) -> None:
        """Forget every stored model that has another revision by now, or none."""
        kept = dict(self._stored)
        if not kept:
            return
        current = self._read_versions(kept.keys())
        for name, model in kept.items():
            if current.get(name) != model.version:
                self.forget(name)

    def _keep(self, model: NamedModel, generation: int) -> None:
        with self._lock:
            # A change that came between reading and keeping would otherwise be hidden until the next refresh.
            if generation != self._generation:
                return
            self._stored[model.name] = model
            while len(self._stored) > MAX_STORED_MODELS:
                self._stored.popitem(last=False)


def catalogue_model(name: str) -> NamedModel | None:
    """Return a model of the catalogue; raises EstimatorError when it is there but cannot be read yet."""
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
        checkpoints=catalogue.checkpoints_of(name),
    )


def stored_model(sessions: Sessions, name: str) -> NamedModel | None:
    """Return a stored model at its newest revision."""
    stored = models.find(sessions, name)
    return None if stored is None else named(stored)


def named(stored: StoredModel) -> NamedModel:
    """Return what questions need of a stored revision."""
    config = stored.content.source.get("hf_config")
    return NamedModel(
        name=stored.name,
        revision=stored.revision,
        version=stored.etag,
        architecture=stored_architecture(stored.content),
        hf_config=config if isinstance(config, Mapping) else None,
    )
