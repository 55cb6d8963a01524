"""Models that serving engines implement, by the class that a config names.

``engine_models.json`` has the registries of the engines, each with its release and source, as far
as transformers 5.23 has the class.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.values.engine_versions import Version, parse_version
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.workload import Engine

_FILE = Path(__file__).with_name("engine_models.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineModels:
    """Registry of one engine's release.

    ``own`` are classes with code of the engine, ``transformers`` those that it runs by
    transformers' code; ``removed`` says the last release of others. ``falls_back``: what is in none
    of them is tried by transformers' code (``--model-impl auto``).
    """

    release: str
    source: str
    own: frozenset[str]
    transformers: frozenset[str]
    removed: Mapping[str, str]
    falls_back: bool

    def runs_transformers(self, model_class: str) -> bool:
        """Return whether the engine runs transformers' code of a class."""
        if model_class in self.own or model_class in self.removed:
            return False
        return self.falls_back or model_class in self.transformers

    def has_model(self, model_class: str, version: str | None) -> bool:
        """Return whether a release serves a class.

        None is the release that was read.
        """
        last = self.removed.get(model_class)
        if last is not None:
            return version is not None and _is_at_most(version, parse_version(last))
        return model_class in self.own or self.runs_transformers(model_class)


def _is_at_most(version: str, last: Version) -> bool:
    try:
        requested = parse_version(version)
    except InvalidInputError:
        return False
    return (requested.major, requested.minor) <= (last.major, last.minor)


@cache
def load_engine_models() -> Mapping[Engine, EngineModels]:
    """Return the registry of each engine that has one."""
    document = json.loads(_FILE.read_text(encoding="utf-8"))
    return {
        Engine(name): EngineModels(
            release=entry["release"],
            source=entry["source"],
            own=frozenset(entry["own"]),
            transformers=frozenset(entry["transformers"]),
            removed=entry["removed"],
            falls_back=entry["falls_back"],
        )
        for name, entry in document.items()
    }


def runs_transformers_code(model: Architecture, engine: Engine) -> bool:
    """Return whether an engine runs transformers' code of a recorded model."""
    if not is_recorded(model):
        return False
    models = load_engine_models().get(engine)
    return models is not None and models.runs_transformers(model.recorded.model_class)


def list_engines(model_class: str) -> list[str]:
    """Return the engines that serve a class, by whose code."""
    lines = []
    for engine, models in load_engine_models().items():
        if models.has_model(model_class, None):
            backend = " (--model-impl transformers)" * models.runs_transformers(model_class)
            lines.append(f"engine {engine}{backend}")
    return [*lines, "engine transformers"]
