"""Configs within configs, with the defaults of transformers 5.23."""

from typing import Any

import pytest

from service.estimator.model.families.registry import architecture_from_config

_COUNTED: tuple[tuple[str, dict[str, Any], int], ...] = (
    # The tower hands out its own width: 3584, whatever the language model has.
    ("qwen2_vl", {}, 73_381_962_752),
    ("qwen2_vl", {"vision_config": {}, "hidden_size": 1024, "vocab_size": 1000}, 8_133_449_728),
    ("qwen2_5_vl", {}, 75_789_228_800),
    ("qwen2_5_vl", {"vision_config": {"out_hidden_size": 64}}, 75_738_762_560),
    # A tower of which nothing is said is LLaVA's; one that says nothing is CLIP's smaller one.
    ("llava", {}, 7_062_902_784),
    ("llava", {"vision_config": {"model_type": "clip_vision_model"}}, 6_845_802_752),
    (
        "mistral3",
        {"text_config": {}, "vision_config": {}, "tie_word_embeddings": True},
        7_539_316_736,
    ),
    ("gemma3", {"vision_config": {"vision_use_head": False}}, 2_716_225_792),
    ("roberta", {}, 124_696_665),
)
"""Parameters of models that transformers built on meta tensors from these fields."""


@pytest.mark.parametrize(("model_type", "fields", "parameters"), _COUNTED)
def test_what_a_config_leaves_out_is_transformers_default(
    model_type: str, fields: dict[str, Any], parameters: int
) -> None:
    """The count is that of the built model, whether a part is absent or says nothing."""
    model = architecture_from_config({"model_type": model_type, **fields})

    assert model.parameter_counts().total == parameters
