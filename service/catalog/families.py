"""Families of models, and what is modelled of each.

Both that and their models come from the registry of families and the rules of every runner.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from service.catalog.models import ModelEntry, list_models, load_config
from service.estimator.model.families.registry import (
    architecture_from_config,
    get_family_group,
    list_model_types,
)
from service.estimator.model.heads.config import list_heads, put_head_in_config
from service.estimator.rules.capabilities import (
    Capability,
    list_capabilities,
    list_engine_capabilities,
)
from service.estimator.values.heads import Head

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
    pooling_engines: tuple[str, ...] = ()
    """Engines that serve its hidden states where they do not serve its own head."""

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
        """Modelled engines, of the family's own head or of its hidden states."""
        return tuple(
            capability.runner
            for capability in self.capabilities
            if capability.task == "serve"
            and (capability.is_modelled or capability.runner in self.pooling_engines)
        )


@cache
def list_families() -> tuple[FamilyEntry, ...]:
    """Return every family by name."""
    return tuple(_build_family(name) for name in list_model_types())


def _build_family(name: str) -> FamilyEntry:
    models = [entry for entry in list_models() if entry.model_type == name]
    config = _load_example(name, models)
    return FamilyEntry(
        name=name,
        group=get_family_group(name),
        models=tuple(entry.name for entry in models),
        capabilities=list_capabilities(architecture_from_config(config)),
        pooling_engines=_list_pooling_engines(name, config),
    )


def _list_pooling_engines(name: str, config: Mapping[str, object]) -> tuple[str, ...]:
    """Return the engines that serve an encoder's hidden states."""
    if get_family_group(name) != "encoders" or Head.NONE.value not in list_heads(name):
        return ()
    pooled = architecture_from_config(put_head_in_config(config, Head.NONE, None))
    engines = list_engine_capabilities(pooled)
    return tuple(capability.runner for capability in engines if capability.is_modelled)


def _load_example(name: str, models: list[ModelEntry]) -> Mapping[str, object]:
    """Return the config of a model of a family.

    It is one of the catalogue, with the family's own head, else one of its own defaults.
    """
    plain = [config for config in map(load_config, models) if "quantization_config" not in config]
    if plain:
        return {field: value for field, value in plain[0].items() if field != "architectures"}
    return {"model_type": name, **_EXAMPLES.get(name, {})}
