"""Models of the hub that a package lists, and fine-tunes.

They are asked by name as those of the catalogue are, and after them: a stored model of the same
name comes first. Read when a name is asked for that nothing else has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path

from service.base.gzip_json import decode_gzip_json
from service.catalog.models import find_model, load_architecture, load_config
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.memo import keep_latest

LISTED = Path(__file__).with_name("listed_models.json.gz")
_MAX_BUILT = 32
"""Models that a process keeps built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """A listed model: one of the catalogue, or a config.

    ``fields`` are those of a config.json that it has beside those of the catalogue's: they say its
    head, or how its weights are packed.
    """

    note: str
    """Where its shape was taken from, for the assumptions of an answer."""
    entry_name: str | None = None
    config: Mapping[str, object] | None = None
    fields: Mapping[str, object] | None = None


def find_listed(name: str) -> ListedModel | None:
    """Return the listed model with this id, in any case of letters."""
    return _index_by_name().get(name.casefold())


def load_listed_config(listed: ListedModel) -> Mapping[str, object] | None:
    """Return a listed model's config, none of an entry."""
    if listed.fields is None:
        return listed.config
    entry = find_model(listed.entry_name or "")
    assert entry is not None  # noqa: S101 - a test holds the list to the catalogue
    return {**load_config(entry), **listed.fields}


@keep_latest(_MAX_BUILT)
def load_listed_architecture(name: str) -> Architecture:
    """Return the architecture of a listed model that has a config."""
    listed = _index_by_name()[name.casefold()]
    config = load_listed_config(listed)
    assert config is not None  # noqa: S101 - asked of a model that is no entry
    entry = find_model(listed.entry_name or "")
    if entry is None or entry.recording is None:
        return architecture_from_config(config)
    quantized = import_module("service.estimator.model.quantization.configs")
    return replace(load_architecture(entry), quantization=quantized.read_quantization(config))


@cache
def _index_by_name() -> Mapping[str, ListedModel]:
    document = decode_gzip_json(LISTED.read_bytes())
    package = document["package"]
    index: dict[str, ListedModel] = {}
    for entry_name, ids in document["same"].items():
        note = f"with whose type, shape, context and total the package {package} lists it"
        index |= {id_.casefold(): ListedModel(note=note, entry_name=entry_name) for id_ in ids}
    for shape in document["shapes"]:
        note = f"the shape that the package {package} lists, whose total is the published one"
        listed = ListedModel(note=note, config=shape["config"])
        index |= dict.fromkeys([id_.casefold() for id_ in shape["ids"]], listed)
    for tuned in document["heads"]:
        note = f"the shape of {tuned['entry']} with the head that {tuned['source']} says"
        listed = ListedModel(note=note, entry_name=tuned["entry"], fields=tuned["head"])
        index |= dict.fromkeys([id_.casefold() for id_ in tuned["ids"]], listed)
    for packed in document["packed"]:
        note = (
            f"{packed['entry']} with weights of 8 bits and a scale for each row, which make as "
            f"many values as the package {package} lists"
        )
        fields = {"quantization_config": packed["quantization_config"]}
        listed = ListedModel(note=note, entry_name=packed["entry"], fields=fields)
        index |= dict.fromkeys([id_.casefold() for id_ in packed["ids"]], listed)
    return index
