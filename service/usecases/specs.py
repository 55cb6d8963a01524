"""Models by name, at hand in the process: a fit asks no database for a name that was asked before."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from service.estimator.architecture import Architecture

MAX_STORED_MODELS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """One revision of a model; ``hf_config`` is the config.json it came from, ``None`` where it came from our own spec.

    ``version`` names the revision for ever: a model that was deleted and stored anew starts again at revision 1.
    """

    name: str
    revision: int
    version: str
    architecture: Architecture
    hf_config: Mapping[str, object] | None = None


Read = Callable[[str], NamedModel | None]
ReadVersions = Callable[[Collection[str]], Mapping[str, str]]


class SpecBook:
    """The catalogue and the stored models that were asked for, the latter forgotten when they change.

    A catalogue name never reaches storage, since no stored model may take one. ``read_stored`` and ``read_versions`` ask
    the database: the first on a miss, the second for all names that are kept at every refresh.
    """

    def __init__(self, *, read_catalogue: Read, read_stored: Read, read_versions: ReadVersions) -> None:
        """Start empty; nothing is read before somebody asks."""
        self._read_catalogue = read_catalogue
        self._read_stored = read_stored
        self._read_versions = read_versions
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
