"""GPT-NeoX and Falcon: both halves of a layer on the same input."""

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.values.errors import InvalidConfigError, NotModelledError
from service.estimator.values.workload import Attention
from tests.builders import a_training
from tests.unit.estimator.model.families.recorded_peaks import (
    PER_SCORE,
    PER_TOKEN,
    a_family,
    added_by_a_layer,
)


def _neox(**changes: object) -> dict[str, object]:
    shape = {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 3,
        "intermediate_size": 256,
        "vocab_size": 512,
    }
    return {"model_type": "gpt_neox", **shape, **changes}


def _falcon(**changes: object) -> dict[str, object]:
    shape = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3, "vocab_size": 512}
    return {"model_type": "falcon", **shape, **changes}


@pytest.mark.parametrize("name", ["pythia-1.4b", "pythia-6.9b"])
def test_a_pythia_layer_keeps_thirty_six_times_its_width(name: str) -> None:
    """20h + 4i bytes per token: input, two norms, fused projection, query and key, attention twice,
    two of the inner size.
    """
    model = load_architecture(resolve_model(name))
    h, i, a = model.spec.hidden_size, model.spec.intermediate_size, model.spec.num_attention_heads

    added = added_by_a_layer(
        model.with_layers(3), a_training(precision="bf16", attention=Attention.FLASH)
    )

    assert added[PER_TOKEN] == 20 * h + 4 * i + 4 * a + 16
    assert 20 * h + 4 * i == 36 * h


def test_a_head_that_rotates_whole_is_not_put_together_again() -> None:
    """Without a part that passes, flash's output lies token after token and is not copied: 2h
    less.
    """
    workload = a_training(precision="bf16", attention=Attention.FLASH)

    part, whole = (
        added_by_a_layer(a_family(**_neox(rotary_pct=share)), workload)[PER_TOKEN]
        for share in (0.25, 1.0)
    )

    assert part - whole == 2 * 64


@pytest.mark.parametrize("where", ["rope_parameters", "rope_scaling"])
def test_the_share_that_rotates_may_stand_among_the_rope_parameters(where: str) -> None:
    """``partial_rotary_factor`` is transformers' own name for ``rotary_pct``."""
    model = a_family(**_neox(**{where: {"partial_rotary_factor": 0.5}}))

    assert model.rotary_tables == (8, 8)


def test_a_sequential_neox_has_the_parameters_of_a_parallel_one() -> None:
    """``use_parallel_residual`` changes what is alive when, not what is there."""
    parallel, sequential = (
        a_family(**_neox(use_parallel_residual=switch)) for switch in (True, False)
    )

    assert parallel.parameter_counts() == sequential.parameter_counts()
    assert type(parallel.blocks[0][0]) is not type(sequential.blocks[0][0])


def test_every_falcon_layer_makes_a_bias_of_the_mask() -> None:
    """SDPA turns the boolean mask into a bias in the query's dtype, which each layer keeps: 2 bytes
    per pair of positions.
    """
    added = added_by_a_layer(a_family(**_falcon()), a_training(precision="bf16"))

    assert added[PER_SCORE] == 2


def test_an_eager_falcon_keeps_its_probabilities_alone() -> None:
    """Its softmax runs in the model's dtype, and the product keeps the same tensor: 2 a s, where
    llama keeps 6 a s.
    """
    added = added_by_a_layer(
        a_family(**_falcon()), a_training(precision="bf16", attention=Attention.EAGER)
    )

    assert added[PER_SCORE] == 2 * 4


def test_a_falcon_with_all_heads_takes_views_of_its_projection() -> None:
    """Without ``multi_query`` nothing is copied out: values keep the fused projection, 6h, where
    one head keeps 2h of query.
    """
    workload = a_training(precision="bf16")

    one, every = (
        added_by_a_layer(a_family(**_falcon(multi_query=switch)), workload)[PER_TOKEN]
        for switch in (True, False)
    )

    key = 2 * 16
    assert every - one == (6 * 64 + 2 * 64) - 2 * key


def test_the_math_kernel_masks_a_falcon_too() -> None:
    """An asked-for math kernel keeps its scores in fp32 and no bias."""
    model = a_family(**_falcon(multi_query=False))

    added = added_by_a_layer(model, a_training(precision="bf16", attention=Attention.MATH))

    assert added[PER_SCORE] == 4 * 4


def test_a_falcon_with_one_key_head_caches_one() -> None:
    """Falcon-7b's keys and values are one head; the new architecture caches all heads, since it
    expands them first.
    """
    single = a_family(**_falcon(multi_query=True))
    expanded = a_family(**_falcon(new_decoder_architecture=True, num_kv_heads=2))

    assert [model.blocks[0][0].cache_elements_per_token for model in (single, expanded)] == [
        2 * 16,
        2 * 64,
    ]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"alibi": True}, "alibi"),
        ({"bias": True}, "bias"),
        ({"parallel_attn": False}, "parallel_attn"),
    ],
)
def test_a_falcon_with_a_switch_of_falcon_rw_is_refused(
    changes: dict[str, object], field: str
) -> None:
    """Position biases, biases and layers in sequence have no term yet."""
    with pytest.raises(NotModelledError) as refusal:
        a_family(**_falcon(**changes))

    assert refusal.value.field == field


def test_a_falcon_with_three_norms_is_refused() -> None:
    """There are one or two norms before a parallel layer."""
    with pytest.raises(InvalidConfigError, match="num_ln_in_parallel_attn is 3"):
        a_family(**_falcon(new_decoder_architecture=True, num_ln_in_parallel_attn=3))
