"""DeepSeek-V3.2 and GLM-5: small traced steps, published totals, and layers that share a choice."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.backends.paged_pool.draft_heads import add_speculation
from service.estimator.backends.paged_pool.rank_memory import build_ranks
from service.estimator.model.families.registry import (
    architecture_from_config,
    architecture_from_spec,
)
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.speculative import DraftHead, Speculative
from tests.tiny_models import tiny_config
from tests.unit.estimator.model.families.small_steps import SmallStep

_V32, _GLM = tiny_config("deepseek_v32"), tiny_config("glm_moe_dsa")
_STEPS = (
    SmallStep(name="below top-k", config=_V32, forward=1595256, backward=1786472, batch=2),
    SmallStep(
        name="checkpointed",
        config=_V32,
        forward=3570432,
        backward=5082696,
        batch=2,
        sequence=96,
        checkpointed=True,
    ),
    SmallStep(
        name="autocast, alone",
        config=_V32,
        forward=5365680,
        backward=5635240,
        sequence=96,
        precision="amp_bf16",
    ),
    SmallStep(
        name="shared choices", config=_GLM, forward=9182280, backward=9947192, batch=2, sequence=96
    ),
    SmallStep(
        name="shared choices, checkpointed",
        config=_GLM,
        forward=3570432,
        backward=5422312,
        batch=2,
        sequence=96,
        checkpointed=True,
    ),
)


@pytest.mark.parametrize("step", _STEPS, ids=lambda step: step.name)
def test_a_small_step_is_what_was_traced(step: SmallStep) -> None:
    """Scores of all heads in fp32 are the peak; indexers have no gradients."""
    assert step.estimated() == pytest.approx((step.forward, step.backward), rel=2e-4)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("glm-5", 753_864_139_008),
        ("glm-5.1", 753_864_139_008),
        ("glm-5.2", 753_329_940_480),
    ],
)
def test_totals_are_published_ones_with_the_predictor(name: str, published: int) -> None:
    """Published files hold a layer more, which has an indexer, and biases of 76 routers."""
    model = replace(load_architecture(resolve_model(name)), quantization=None)
    ranks = build_ranks(model, Layout(), scheme=None, dtype=DType.BF16)
    head = Speculative(num_tokens=1, head=DraftHead.MTP)

    (plain,) = ranks
    (guessing,) = add_speculation(ranks, model, head, Layout(), scheme=None, dtype=DType.BF16)

    predictor = (guessing.weight_bytes - plain.weight_bytes) // 2
    assert model.counts.total + predictor + 76 * 256 == published


def test_layers_without_an_indexer_are_those_that_the_config_names() -> None:
    """A pattern, a list and a period say the same; 21 of GLM-5.2's 78 layers have an indexer."""
    words = {"F": "full", "S": "shared"}
    pattern = str(_GLM["index_topk_pattern"])
    plain = {name: part for name, part in _GLM.items() if name != "index_topk_pattern"}
    listed = plain | {"indexer_types": [words[letter] for letter in pattern]}
    period = plain | {"index_topk_freq": 3, "index_skip_topk_offset": 2}
    model = architecture_from_config(_GLM)

    assert model.describe()["layer_kinds"] == "fFSS"
    for config in (listed, period):
        assert architecture_from_config(config).describe() == model.describe()
    letters = str(load_architecture(resolve_model("glm-5.2")).describe()["layer_kinds"])
    assert letters.upper().count("F") == 21


def test_an_indexer_gets_neither_gradients_nor_states() -> None:
    """Its weights and those of its adapters are trained by nobody."""
    model = architecture_from_config(_V32)
    names = {weight.name for weight, _ in model.weights() if ".indexer." in weight.name}

    assert len(names) == 5
    assert names < model.never_trained
    assert "self_attn.indexer.wq_b.lora_A" in model.never_trained


@pytest.mark.parametrize("config", [_V32, _GLM], ids=["deepseek_v32", "glm_moe_dsa"])
def test_a_description_reads_back(config: dict[str, object]) -> None:
    """``describe`` and ``architecture_from_spec`` undo each other, cut or whole."""
    for model in (
        architecture_from_config(config),
        architecture_from_config(config).with_layers(2),
    ):
        assert architecture_from_spec(model.describe()).fingerprint() == model.fingerprint()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"mlp_bias": True}, "mlp_bias"),
        ({"num_key_value_heads": 2}, "num_key_value_heads"),
        ({"index_topk_pattern": "SFFF"}, "index_topk_pattern"),
        ({"index_topk_pattern": "FF"}, "index_topk_pattern"),
        ({"indexer_types": ["full", "none", "full", "full"]}, "indexer_types"),
        ({"mlp_layer_types": ["sparse", "dense", "sparse", "sparse"]}, "mlp_layer_types"),
    ],
)
def test_what_cannot_be_built_is_refused(change: dict[str, object], field: str) -> None:
    """The refusal names the field of the config."""
    with pytest.raises(EstimatorError) as refused:
        architecture_from_config({**_GLM, **change})

    assert getattr(refused.value, "field", None) == field


def test_published_configs_are_read_as_transformers_reads_them() -> None:
    """A list of dense and sparse layers counts as ``first_k_dense_replace`` does."""
    config: dict[str, Any] = dict(load_config(resolve_model("glm-5.2")))
    listed = config.pop("mlp_layer_types")

    assert listed.count("dense") == 3
    assert architecture_from_config(config).describe() == (
        load_architecture(resolve_model("glm-5.2")).describe()
    )
