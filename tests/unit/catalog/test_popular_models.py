"""The 300 ids that are downloaded most: each is answered, or told what to paste and where."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from service.base.errors import UnknownModelError
from service.catalog.listed_models import find_listed
from service.catalog.models import find_model, load_architecture
from service.catalog.spellings import read_spelling
from service.estimator.model.families.registry import list_model_types

POPULAR: Mapping[str, Any] = json.loads(
    Path(__file__).with_name("popular_models.json").read_bytes()
)
MODELS: Mapping[str, str] = POPULAR["models"]
"""Id → the model_type that the hub gives it."""
BY_CONFIG = frozenset(POPULAR["by_config"])
"""Ids of known families that the catalogue has no config of: theirs was not to be had, or says what
a model of theirs does beside the shape.
"""


def is_answered(name: str) -> bool:
    """Return whether the catalogue or the list of shapes has a name."""
    return find_model(name) is not None or find_listed(name) is not None


def test_the_list_is_whole() -> None:
    """300 ids, and six of ten are answered by name."""
    assert len(MODELS) == 300
    assert sum(is_answered(name) for name in MODELS) >= 187
    assert len(BY_CONFIG) < 18


@pytest.mark.parametrize("name", MODELS)
def test_a_popular_id_is_answered_or_told_what_to_paste(name: str) -> None:
    """No dead end: its architecture is read, or its config.json is named with the flag for it."""
    entry = find_model(name)
    if entry is not None:
        assert load_architecture(entry).parameter_counts().total > 0
        return
    if is_answered(name):
        assert read_spelling(name).checkpoint == name
        return

    with pytest.raises(UnknownModelError) as refused:
        read_spelling(name)
    assert f"https://huggingface.co/{name}/raw/main/config.json" in refused.value.detail
    assert "--config FILE" in refused.value.detail
    assert "`headroom models record config.json`" in refused.value.detail


def test_a_known_family_is_asked_by_its_config_only_where_that_is_said() -> None:
    """An id of a family that is modelled is in the catalogue, or in the list of those that are
    not.
    """
    known = {name for name, family in MODELS.items() if family in list_model_types()}

    assert {name for name in known if not is_answered(name)} <= BY_CONFIG
    assert known >= BY_CONFIG
