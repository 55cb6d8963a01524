"""Configs of experts: read under both words that transformers reads, refused where transformers
refuses them.
"""

import pytest

from service.catalog.models import load_config, resolve_model
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import InvalidConfigError


@pytest.mark.parametrize("name", ["mixtral-8x7b", "gpt-oss-20b", "qwen3-coder-480b-a35b"])
def test_both_words_for_experts_mean_the_same(name: str) -> None:
    """A config that transformers saved says ``num_local_experts`` where the published one may say
    ``num_experts``.
    """
    config = {
        key: value
        for key, value in load_config(resolve_model(name)).items()
        if not key.endswith("_experts")
    }
    ours, theirs = ({**config, word: 24} for word in ("num_experts", "num_local_experts"))
    default = architecture_from_config(config).parameter_counts().total

    assert (
        architecture_from_config(ours).parameter_counts().total
        == architecture_from_config(theirs).parameter_counts().total
    )
    assert architecture_from_config(ours).parameter_counts().total != default


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        (
            "gpt-oss-20b",
            {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 3},
            "layer_types names 3 layers",
        ),
        (
            "gpt-oss-20b",
            {"num_hidden_layers": 2, "layer_types": ["full_attention"]},
            "layer_types names 1 layers",
        ),
        (
            "deepseek-v3",
            {"n_shared_experts": None},
            "'n_shared_experts' is null; .*, 1 where it is left out",
        ),
    ],
)
def test_what_transformers_refuses_is_refused(
    name: str, change: dict[str, object], told: str
) -> None:
    """More kinds than layers, fewer of them, and an unsaid number of shared experts are no model
    (transformers 5.23).
    """
    with pytest.raises(InvalidConfigError, match=told):
        architecture_from_config({**load_config(resolve_model(name)), **change})
