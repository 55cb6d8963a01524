"""The number of experts is read under both words that transformers reads."""

import pytest

from service.catalog.models import load_config, resolve_model
from service.estimator.families.registry import architecture_from_config


@pytest.mark.parametrize("name", ["mixtral-8x7b", "gpt-oss-20b", "qwen3-coder-480b-a35b"])
def test_both_words_for_experts_mean_the_same(name: str) -> None:
    """A config that transformers saved says ``num_local_experts`` where the published one may say ``num_experts``."""
    config = {key: value for key, value in load_config(resolve_model(name)).items() if not key.endswith("_experts")}
    ours, theirs = ({**config, word: 24} for word in ("num_experts", "num_local_experts"))
    default = architecture_from_config(config).parameter_counts().total

    assert architecture_from_config(ours).parameter_counts().total == architecture_from_config(theirs).parameter_counts().total
    assert architecture_from_config(ours).parameter_counts().total != default
