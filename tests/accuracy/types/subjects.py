"""Configs whose recordings are shipped: defaults of types, and published checkpoints; no torch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHECKPOINTS: Mapping[str, list[str]] = json.loads(
    Path(__file__).with_name("checkpoints.json").read_bytes()
)
"""Hub ids by the type whose default config they have.

Their published totals are those of the default config, and so are layers, heads and widths, as the
package llmfit 1.1.17 gives them, whose catalogue holds what the hub says of each.
"""
_PUBLISHED: Mapping[str, Any] = json.loads(Path(__file__).with_name("published.json").read_bytes())
"""By name: a config.json as it is published, its ids, and where it was read."""
_DOCUMENTED: Mapping[str, Any] = json.loads(
    Path(__file__).with_name("documented.json").read_bytes()
)
"""Hub ids by the type whose documentation gives the default config for them, with a proof of it."""
_DEFAULT = "the default config of {type} in transformers {{transformers}}"
_SAME = (
    "; its total is that of the published weights of the aliases, and its numbers are theirs in "
    "the package llmfit 1.1.17, whose catalogue holds what the hub says"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A config that is recorded, and what the catalogue says of it.

    ``config`` is None for a type's default config; ``required`` are the fields, as paths, that
    have not the default of their class.
    """

    name: str
    model_type: str
    ids: tuple[str, ...]
    source: str
    config: Mapping[str, Any] | None = None
    required: tuple[str, ...] = ()


def find_subject(word: str) -> Subject:
    """Return a published checkpoint by its name, else a type's default config."""
    published = _PUBLISHED.get(word)
    if published is None:
        return _make_default(word)
    config = published["config"]
    return Subject(
        name=word,
        model_type=config["model_type"],
        ids=tuple(published["ids"]),
        source=published["source"],
        config=config,
    )


def _make_default(model_type: str) -> Subject:
    default = f"{model_type.replace('_', '-')}-default"
    documented = _DOCUMENTED.get(model_type)
    if documented is not None:
        source = _DEFAULT.format(type=model_type) + documented["source"]
        ids = tuple(documented["ids"])
        return Subject(name=default, model_type=model_type, ids=ids, source=source)
    ids = tuple(_CHECKPOINTS.get(model_type, ()))
    source = _DEFAULT.format(type=model_type) + (_SAME if ids else "")
    name = ids[0].rpartition("/")[2].lower() if ids else default
    return Subject(name=name, model_type=model_type, ids=ids, source=source)
