"""Bamba: the order of its layers, its parameters by hand, and small steps against traces of
them.
"""

import pytest

from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.ssm.mamba2 import Mamba2Mixer
from service.estimator.values.errors import EstimatorError
from tests.unit.estimator.model.families.recorded_peaks import a_family
from tests.unit.estimator.model.families.small_steps import SmallStep

_CONFIG: dict[str, object] = {
    "model_type": "bamba",
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "attn_layer_indices": [2],
    "mamba_n_heads": 8,
    "mamba_n_groups": 2,
    "mamba_d_state": 16,
    "mamba_chunk_size": 16,
}
_STEPS = (
    SmallStep(name="one sequence", config=_CONFIG, forward=1_394_374, backward=1_443_326),
    SmallStep(name="two sequences", config=_CONFIG, batch=2, forward=2_786_574, backward=2_884_094),
    SmallStep(
        name="padded", config=_CONFIG, batch=2, padded=True, forward=2_786_574, backward=2_884_094
    ),
    SmallStep(
        name="checkpointed",
        config=_CONFIG,
        batch=2,
        checkpointed=True,
        forward=594_208,
        backward=1_322_746,
    ),
    SmallStep(
        name="fp32",
        config=_CONFIG,
        batch=2,
        precision="fp32",
        forward=3_168_270,
        backward=3_364_094,
    ),
    SmallStep(
        name="autocast",
        config=_CONFIG,
        batch=2,
        precision="amp_bf16",
        forward=2_706_670,
        backward=2_790_750,
    ),
    SmallStep(
        name="adapters", config=_CONFIG, batch=2, lora=4, forward=2_761_710, backward=2_853_086
    ),
)


@pytest.mark.parametrize("step", _STEPS, ids=lambda step: step.name)
def test_a_small_step_is_what_was_traced(step: SmallStep) -> None:
    """Both passes peak within two hundredths: the loop over layers still names the last eager
    attention's weights.
    """
    assert step.estimated() == pytest.approx((step.forward, step.backward), rel=0.02)


def test_the_layers_listed_have_attention() -> None:
    """All others have a mixer."""
    model = a_family(**_CONFIG)
    layers = [
        block
        for block in (model.blocks[kind][0] for kind in model.order)
        if isinstance(block, Block)
    ]

    assert [isinstance(layer.attention, Mamba2Mixer) for layer in layers] == [
        True,
        True,
        False,
        True,
    ]


def test_the_mixers_are_counted() -> None:
    """Three mixers of eight heads of sixteen, and the norms of four layers, their mixers and the
    end.
    """
    hidden, inner, heads = 64, 128, 8
    convolved = inner + 2 * 2 * 16
    mixer = hidden * (inner + convolved + heads) + 5 * convolved + 3 * heads + inner * hidden

    counts = a_family(**_CONFIG).parameter_counts()

    assert counts.by_module["ssm"] == 3 * mixer
    assert counts.by_module["norm"] == 9 * hidden + 3 * inner


def test_a_description_reads_back() -> None:
    """``describe`` and ``architecture_from_spec`` undo each other."""
    model = a_family(**_CONFIG)

    assert architecture_from_spec(model.describe()).fingerprint() == model.fingerprint()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"mamba_d_head": 12}, "mamba_n_heads"),
        ({"mamba_n_groups": 3}, "mamba_n_groups"),
        ({"attn_layer_indices": "2"}, "attn_layer_indices"),
        ({"z_loss_coefficient": 0.1}, "z_loss_coefficient"),
    ],
)
def test_what_cannot_be_built_is_refused(change: dict[str, object], field: str) -> None:
    """The refusal names the field of the config."""
    with pytest.raises(EstimatorError) as refused:
        a_family(**_CONFIG | change)

    assert getattr(refused.value, "field", None) == field
