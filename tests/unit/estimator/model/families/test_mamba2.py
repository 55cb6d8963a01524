"""Mamba-2: its parameters by hand, and small steps against traces of them."""

import pytest

from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.values.errors import InvalidConfigError
from tests.unit.estimator.model.families.recorded_peaks import a_family
from tests.unit.estimator.model.families.small_steps import SmallStep

_CONFIG: dict[str, object] = {
    "model_type": "mamba2",
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_heads": 8,
    "head_dim": 16,
    "state_size": 16,
    "n_groups": 2,
    "chunk_size": 16,
}
_STEPS = (
    SmallStep(name="one chunk", config=_CONFIG, sequence=16, forward=647_656, backward=715_296),
    SmallStep(
        name="a part of a chunk", config=_CONFIG, sequence=24, forward=1_216_486, backward=1_308_446
    ),
    SmallStep(
        name="two sequences of one chunk",
        config=_CONFIG,
        batch=2,
        sequence=16,
        forward=1_392_112,
        backward=1_514_464,
    ),
    SmallStep(
        name="two sequences",
        config=_CONFIG,
        batch=2,
        sequence=40,
        forward=3_766_456,
        backward=4_072_360,
    ),
    SmallStep(
        name="fp32",
        config=_CONFIG,
        batch=2,
        sequence=40,
        precision="fp32",
        forward=4_074_168,
        backward=4_400_552,
    ),
    SmallStep(
        name="autocast",
        config=_CONFIG,
        batch=2,
        sequence=40,
        precision="amp_bf16",
        forward=3_144_248,
        backward=3_449_000,
    ),
    SmallStep(
        name="padded",
        config=_CONFIG,
        batch=2,
        sequence=40,
        padded=True,
        forward=3_766_456,
        backward=4_072_360,
    ),
    SmallStep(
        name="checkpointed",
        config=_CONFIG,
        batch=2,
        sequence=40,
        checkpointed=True,
        forward=880_160,
        backward=1_813_384,
    ),
)


@pytest.mark.parametrize("step", _STEPS, ids=lambda step: step.name)
def test_a_small_step_is_what_was_traced(step: SmallStep) -> None:
    """Both passes peak within half a percent of the trace, chunks, padding, autocast and
    checkpointing included.
    """
    assert step.estimated() == pytest.approx((step.forward, step.backward), rel=0.006)


def test_the_mixer_is_counted() -> None:
    """Entry, convolution, steps, decay, skip, gated norm and output (arXiv:2405.21060, section
    6).
    """
    hidden, inner, convolved, heads = 64, 128, 128 + 2 * 2 * 16, 8
    mixer = hidden * (inner + convolved + heads) + 5 * convolved + 3 * heads + inner * hidden

    counts = a_family(**_CONFIG).parameter_counts()

    assert counts.by_module["ssm"] == 3 * mixer
    assert counts.by_module["norm"] == 3 * (hidden + inner) + hidden


def test_a_description_reads_back() -> None:
    """``describe`` and ``architecture_from_spec`` undo each other."""
    model = a_family(**_CONFIG)

    assert architecture_from_spec(model.describe()).fingerprint() == model.fingerprint()


@pytest.mark.parametrize(
    ("change", "field"), [({"num_heads": 6}, "num_heads"), ({"n_groups": 3}, "n_groups")]
)
def test_heads_that_do_not_add_up_are_refused(change: dict[str, object], field: str) -> None:
    """Heads must make up the expanded width, and groups divide them."""
    with pytest.raises(InvalidConfigError) as refused:
        a_family(**_CONFIG | change)

    assert refused.value.field == field


def test_an_unknown_activation_is_refused() -> None:
    """An activation without a term is named."""
    with pytest.raises(InvalidConfigError) as refused:
        a_family(**_CONFIG | {"hidden_act": "xielu"})

    assert refused.value.field == "activation"
