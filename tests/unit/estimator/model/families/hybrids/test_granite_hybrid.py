"""Granite 4: its layers by the config's list, with experts or without, and with positions."""

import pytest

from service.estimator.backends.paged_pool.layer_caches import merge_states
from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.mlp.feedforward import FusedGatedFeedForward
from service.estimator.model.modules.ssm.mamba2 import Mamba2Mixer
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError
from tests.tiny_models import tiny_config
from tests.unit.estimator.model.families.recorded_peaks import a_family

_CONFIG = tiny_config("granitemoehybrid")
_HIDDEN, _INNER, _CONVOLVED, _HEADS = 128, 256, 256 + 2 * 16, 8
_MIXER = _HIDDEN * (_INNER + _CONVOLVED + _HEADS) + 5 * _CONVOLVED + 3 * _HEADS + _INNER * _HIDDEN


@pytest.mark.parametrize("field", ["layer_types", "layers_block_type"])
@pytest.mark.parametrize("names", [("mamba", "attention"), ("linear_attention", "full_attention")])
def test_a_layer_is_what_the_config_lists(field: str, names: tuple[str, str]) -> None:
    """Both names of the list, and both of a layer's kinds, are read."""
    config = {name: value for name, value in _CONFIG.items() if name != "layer_types"}
    model = a_family(**config, **{field: list(names) * 2})
    layers = [model.blocks[kind][0] for kind in model.order]

    assert [type(layer.attention) for layer in layers if isinstance(layer, Block)] == [
        Mamba2Mixer,
        Attention,
    ] * 2


def test_parts_are_counted() -> None:
    """Two mixers, and in each of four layers four experts of 64 beside a shared layer of 96."""
    counts = a_family(**_CONFIG).parameter_counts()

    assert counts.by_module["ssm"] == 2 * _MIXER
    assert counts.by_module["mlp_experts"] == 4 * 4 * 3 * 64 * _HIDDEN
    assert counts.by_module["mlp_shared_expert"] == 4 * 3 * 96 * _HIDDEN
    assert counts.by_module["router"] == 4 * 4 * _HIDDEN
    assert counts.by_module["norm"] == 9 * _HIDDEN + 2 * _INNER


def test_no_experts_leave_the_shared_layer() -> None:
    """Granite 4 Micro has none, and attention with rotary positions in every layer."""
    config = _CONFIG | {
        "num_local_experts": 0,
        "layer_types": ["attention"] * 4,
        "position_embedding_type": "rope",
    }
    model = a_family(**config)
    (block,) = (block for block, _ in model.blocks)

    assert isinstance(block, Block)
    assert isinstance(block.feed_forward, FusedGatedFeedForward)
    assert "router" not in model.parameter_counts().by_module
    assert not model.recurrent
    assert model.rotary_tables == (32, 32)
    assert a_family(**_CONFIG).rotary_tables == ()


def test_states_are_in_the_format_of_the_weights() -> None:
    """Nothing in the config says another (vLLM's ``mamba_ssm_cache_dtype`` is auto)."""
    model = a_family(**_CONFIG)

    (state,) = merge_states(model, tuple(count for _, count in model.blocks), DType.BF16)

    assert (state.count, state.bytes) == (2, 2 * (3 * _CONVOLVED + _INNER * 16))


def test_a_description_reads_back() -> None:
    """``describe`` and ``architecture_from_spec`` undo each other, cut or whole."""
    for model in (a_family(**_CONFIG), a_family(**_CONFIG).with_layers(1)):
        assert architecture_from_spec(model.describe()).fingerprint() == model.fingerprint()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"layer_types": ["mamba", "attention"]}, "layer_types"),
        ({"layer_types": ["mamba", "conv"] * 2}, "layer_types"),
        ({"mamba_n_groups": 3}, "mamba_n_groups"),
        ({"mamba_d_head": 12}, "mamba_n_heads"),
    ],
)
def test_what_cannot_be_built_is_refused(change: dict[str, object], field: str) -> None:
    """The refusal names the field of the config."""
    with pytest.raises(EstimatorError) as refused:
        a_family(**_CONFIG | change)

    assert getattr(refused.value, "field", None) == field
