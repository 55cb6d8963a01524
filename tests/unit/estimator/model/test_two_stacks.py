"""Encoder-decoders: read, described and cut in both stacks."""

from typing import Any

import pytest

from service.estimator.model.families.registry import (
    architecture_from_config,
    architecture_from_spec,
)
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.values.errors import InvalidConfigError, InvalidInputError, NotModelledError
from tests.unit.estimator.model.families.test_encoder_decoders import CONFIGS, a_two_stack_model


@pytest.mark.parametrize("name", CONFIGS)
def test_cutting_takes_layers_of_both_stacks(name: str) -> None:
    """Cut to two layers, each stack has two; the description of the cut model reads back as it."""
    model = a_two_stack_model(name)

    cut = model.with_layers(2)

    per_pair = sum(
        sum(weight.numel for weight in block.weights())
        for block, _ in cut.blocks[-1:] + _encoder_layers(cut)
    )
    assert model.counts.total - cut.counts.total == per_pair
    assert architecture_from_spec(cut.describe()).counts == cut.counts
    assert cut.fingerprint(depth=False) == model.fingerprint(depth=False) != model.fingerprint()
    with pytest.raises(InvalidInputError, match="the model has 3"):
        model.with_layers(4)


def _encoder_layers(model: EncoderDecoder) -> tuple[Any, ...]:
    """Return the encoder's last kind of layer."""
    return tuple(pair for pair in model.blocks if pair[0].cache_elements_per_token == 0)[-1:]


def test_t5s_later_recipe_gates_and_scales_nothing() -> None:
    """T5 1.1 has two input layers in each feed-forward, and is tied whatever its config says."""
    plain, later = (
        a_two_stack_model("t5"),
        a_two_stack_model("t5", feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    )

    assert later.counts.by_module["mlp"] * 2 == plain.counts.by_module["mlp"] * 3
    assert later.tied
    assert not later.scales_output


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("t5", {"feed_forward_proj": "fast-gelu"}, "feed_forward_proj"),
        ("bart", {"encoder_layerdrop": 0.1}, "encoder_layerdrop"),
        ("whisper", {"apply_spec_augment": True}, "apply_spec_augment"),
    ],
)
def test_a_switch_without_a_term_is_refused(
    name: str, changes: dict[str, object], field: str
) -> None:
    """Dropped layers and masked audio are named."""
    with pytest.raises(NotModelledError) as refusal:
        a_two_stack_model(name, **changes)

    assert refusal.value.field == field


@pytest.mark.parametrize("name", ["whisper", "bart"])
def test_heads_of_the_encoder_fill_its_width(name: str) -> None:
    """The encoder's heads divide the width as the decoder's do; transformers cannot make the model
    either.
    """
    with pytest.raises(
        InvalidConfigError, match="encoder_attention_heads 5 does not divide hidden_size"
    ):
        architecture_from_config({**CONFIGS[name], "encoder_attention_heads": 5})


@pytest.mark.parametrize("name", CONFIGS)
def test_a_specification_without_an_encoder_is_refused(name: str) -> None:
    """A stack of no layers is none."""
    described = a_two_stack_model(name).describe() | {"num_encoder_layers": 0}

    with pytest.raises(InvalidConfigError, match="num_encoder_layers is 0"):
        architecture_from_spec(described)
