"""Families of models, and what is modelled of each.

Both that and their models come from the registry of families and the rules of every runner.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from service.catalog.models import ModelEntry, list_models, load_config
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import (
    architecture_from_config,
    get_family_group,
    list_model_types,
)
from service.estimator.rules.capabilities import Capability, list_capabilities

_EXAMPLES: Mapping[str, Mapping[str, object]] = {"ministral": {"head_dim": 128}}
"""Fields that a family's config must have, of families that the catalogue has no model of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyEntry:
    """A ``model_type``, by what is modelled of it.

    ``group`` is the kind of model, ``models`` are names of the catalogue.
    """

    name: str
    group: str
    models: tuple[str, ...]
    capabilities: tuple[Capability, ...]

    @property
    def training(self) -> Mapping[str, tuple[str, ...]]:
        """Modelled methods by framework; without frameworks that have none."""
        methods: dict[str, tuple[str, ...]] = {}
        for capability in self.capabilities:
            if capability.is_modelled and capability.method is not None:
                methods[capability.runner] = (
                    *methods.get(capability.runner, ()),
                    capability.method,
                )
        return methods

    @property
    def serving(self) -> tuple[str, ...]:
        """Modelled engines."""
        return tuple(
            capability.runner
            for capability in self.capabilities
            if capability.is_modelled and capability.task == "serve"
        )


@cache
def list_families() -> tuple[FamilyEntry, ...]:
    """Return every family by name."""
    return tuple(_build_family(name) for name in list_model_types())


def _build_family(name: str) -> FamilyEntry:
    models = [entry for entry in list_models() if entry.model_type == name]
    return FamilyEntry(
        name=name,
        group=get_family_group(name),
        models=tuple(entry.name for entry in models),
        capabilities=list_capabilities(_load_example(name, models)),
    )


def _load_example(name: str, models: list[ModelEntry]) -> Architecture:
    """Return a model of a family.

    It is one of the catalogue, with the family's own head, else one of its own defaults.
    """
    plain = [config for config in map(load_config, models) if "quantization_config" not in config]
    if plain:
        return architecture_from_config(
            {field: value for field, value in plain[0].items() if field != "architectures"}
        )
    return architecture_from_config({"model_type": name, **_EXAMPLES.get(name, {})})
