"""Jamba: the order of its layers, its parameters by hand, and small steps against traces of
them.
"""

import pytest

from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.mlp.experts import SparseFeedForward
from service.estimator.values.errors import InvalidConfigError
from tests.unit.estimator.model.families.recorded_peaks import a_family
from tests.unit.estimator.model.families.small_steps import SmallStep

_CONFIG: dict[str, object] = {
    "model_type": "jamba",
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "attn_layer_period": 4,
    "attn_layer_offset": 2,
    "mamba_dt_rank": 8,
}
_STEPS = (
    SmallStep(name="one sequence", config=_CONFIG, forward=2_785_728, backward=3_535_752),
    SmallStep(name="two sequences", config=_CONFIG, batch=2, forward=5_556_896, backward=6_667_240),
    SmallStep(
        name="padded", config=_CONFIG, batch=2, padded=True, forward=5_563_040, backward=6_667_240
    ),
    SmallStep(
        name="checkpointed",
        config=_CONFIG,
        batch=2,
        checkpointed=True,
        forward=1_376_704,
        backward=3_698_280,
    ),
    SmallStep(
        name="fp32",
        config=_CONFIG,
        batch=2,
        precision="fp32",
        forward=5_603_800,
        backward=7_180_744,
    ),
    SmallStep(
        name="autocast",
        config=_CONFIG,
        batch=2,
        precision="amp_bf16",
        forward=6_245_080,
        backward=7_574_344,
    ),
)


@pytest.mark.parametrize("step", _STEPS, ids=lambda step: step.name)
def test_a_small_step_is_what_was_traced(step: SmallStep) -> None:
    """Both passes peak within a thousandth of the trace; under autocast the norms of B and C leave
    them in fp32.
    """
    assert step.estimated() == pytest.approx((step.forward, step.backward), rel=0.001)


def test_layers_follow_both_periods() -> None:
    """Attention in the third of four layers, experts in every second one."""
    model = a_family(**_CONFIG)
    layers = [
        block
        for block in (model.blocks[kind][0] for kind in model.order)
        if isinstance(block, Block)
    ]

    assert [isinstance(block.attention, Attention) for block in layers] == [
        False,
        False,
        True,
        False,
    ]
    assert [isinstance(block.feed_forward, SparseFeedForward) for block in layers] == [
        False,
        True,
        False,
        True,
    ]


def test_the_mixer_is_counted_with_its_norms() -> None:
    """Mamba's mixer, and a norm each of step, B and C (arXiv:2403.19887, section 3)."""
    hidden, inner, states, rank, layers = 64, 128, 16, 8, 3
    mixer = (
        hidden * 2 * inner
        + 5 * inner
        + inner * (rank + 2 * states)
        + (rank + 1) * inner
        + inner * (states + 1)
    )

    counts = a_family(**_CONFIG).parameter_counts()

    assert counts.by_module["ssm"] == layers * (mixer + inner * hidden)
    assert counts.by_module["norm"] == 9 * hidden + layers * (rank + 2 * states)


def test_a_description_reads_back() -> None:
    """``describe`` and ``architecture_from_spec`` undo each other."""
    model = a_family(**_CONFIG)

    assert architecture_from_spec(model.describe()).fingerprint() == model.fingerprint()


@pytest.mark.parametrize("field", ["attn_layer_offset", "expert_layer_offset"])
def test_an_offset_beyond_its_period_is_refused(field: str) -> None:
    """No layer of the period would be meant."""
    with pytest.raises(InvalidConfigError) as refused:
        a_family(**_CONFIG | {field: 9})

    assert refused.value.field == field


def test_no_offset_is_the_first_layer() -> None:
    """An offset of zero is a value, not a missing one."""
    first = a_family(**_CONFIG | {"attn_layer_offset": 0}).blocks[0][0]

    assert isinstance(first, Block)
    assert isinstance(first.attention, Attention)
