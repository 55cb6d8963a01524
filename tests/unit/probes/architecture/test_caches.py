"""What a recording keeps of a model's cache and of its tensor-parallel plan, layer by layer."""

import pytest
import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from service.estimator.model.recorded.recorded_model import CachedHeads, CacheParts, SequenceState
from tests.tiny_models import tiny_config
from worker.probes.architecture import caches
from worker.probes.architecture.caches import group_layers, hear_caches, read_layer
from worker.probes.architecture.plans import list_plan, select_plan
from worker.probes.models.model_class import build_any_model, build_config

HEADS = CachedHeads(num_heads=2, key_size=32, value_size=32)
STATE = SequenceState(convolution=(288, 4), recurrent=(8, 32, 16))
KEPT = {
    "gemma3_text": (
        CacheParts(caches=(HEADS,), window=256),
        CacheParts(caches=(HEADS,)),
    ),
    "deepseek_v3": (CacheParts(caches=(CachedHeads(num_heads=1, key_size=32, value_size=16),)),),
    "bamba": (CacheParts(states=(STATE,)), CacheParts(caches=(HEADS,))),
    "zamba2": (
        CacheParts(states=(STATE,)),
        CacheParts(caches=(CachedHeads(num_heads=4, key_size=64, value_size=64),), states=(STATE,)),
    ),
}
"""Of the first layers of small models: windows, latents, states, and both in one layer."""


@pytest.mark.parametrize("model_type", list(KEPT))
def test_a_cache_says_what_each_layer_keeps(model_type: str) -> None:
    """Its own objects are asked, after a prompt that has run through the model's code."""
    config = dict(tiny_config(model_type))
    hf_config = build_config(config)

    heard = hear_caches(config, hf_config, hf_config.num_hidden_layers)

    assert heard[: len(KEPT[model_type])] == KEPT[model_type]


def test_a_model_that_cannot_run_keeps_nothing_that_is_known() -> None:
    """An encoder has no cache, and says so by None for every layer."""
    config = dict(tiny_config("bert"))

    assert hear_caches(config, build_config(config), num_layers=2) == (None, None)


def test_a_layer_of_a_cache_that_nobody_knows_is_named() -> None:
    """Its bytes are not those of the parts that it shares with others."""

    class Compressed(DynamicLayer):  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        """A layer that keeps other parts beside these."""

    layer = Compressed()  # type: ignore[no-untyped-call]  # as above
    layer.update(torch.zeros(1, 2, 16, 8), torch.zeros(1, 2, 16, 8))

    assert read_layer(layer) == CacheParts(other="Compressed")


def test_layers_share_a_cache_or_have_several() -> None:
    """The last layers keep nothing where they read what others keep."""
    parts = CacheParts(caches=(HEADS,))

    assert group_layers([parts, parts], 3) == (parts, parts, CacheParts())
    assert group_layers([parts] * 4, 2) == (CacheParts(caches=(HEADS, HEADS)),) * 2
    assert group_layers([parts] * 3, 2) == (None, None)


def test_a_failing_model_is_no_failure_of_its_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only engines ask for what the cache keeps."""

    def fail(*_: object) -> DynamicCache:
        raise NotImplementedError

    monkeypatch.setattr(caches, "_fill_cache", fail)
    config = dict(tiny_config("llama"))

    assert hear_caches(config, build_config(config), num_layers=1) == (None,)


def test_a_plan_is_that_of_the_modules_that_a_layer_has() -> None:
    """A dense layer has no styles of experts; the table and the head stand outside."""
    config = dict(tiny_config("mixtral"))
    with torch.device("meta"):
        model = build_any_model(config, build_config(config), dtype=torch.float32, attention="sdpa")

    plan = list_plan(model)

    assert dict(select_plan(plan, "model.layers.1."))["self_attn.o_proj"] == "rowwise"
    assert dict(select_plan(plan, "model.layers.1."))["mlp.experts.down_proj"] == "rowwise"
    assert (plan["lm_head"], plan["model.embed_tokens"]) == (
        "colwise_gather_output",
        "embedding_rowwise",
    )
    assert "model.norm" not in plan
