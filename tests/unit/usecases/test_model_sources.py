"""A model's source is understood once, and what is stored about it says the same as the source."""

import json
from collections.abc import Mapping

import pytest

from service.base.errors import InvalidRequestError
from service.estimator.values.errors import InvalidConfigError, UnknownModelTypeError
from service.usecases.stored_specs.model_sources import (
    load_stored_architecture,
    make_content,
    read_source,
)

LLAMA = {
    "model_type": "llama",
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "intermediate_size": 11_008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
}


def test_a_config_is_understood() -> None:
    """Llama-2-7B has 6,738,415,616 parameters (its model card), and its source is kept as it
    came.
    """
    content = make_content({"hf_config": LLAMA})

    assert (content.family, content.num_parameters, content.num_active_parameters) == (
        "llama",
        6_738_415_616,
        6_738_415_616,
    )
    assert content.num_embedding_parameters == 32_000 * 4096
    assert sum(content.parameters_by_module.values()) == content.num_parameters
    assert content.source == {"hf_config": LLAMA}


def test_what_is_stored_is_read_back_as_the_same_model() -> None:
    """After its way through JSON the stored spec is the model that the config was."""
    content = make_content({"hf_config": LLAMA})
    again = make_content({"architecture": json.loads(json.dumps(content.architecture))})

    assert again.fingerprint == content.fingerprint
    assert load_stored_architecture(again) == read_source({"hf_config": LLAMA})


@pytest.mark.parametrize(
    "source",
    [
        {},
        {"hf_config": LLAMA, "architecture": {}},
        {"onnx": {}},
        {"hf_config": None},
        {"hf_config": "llama-2-7b"},
        {"architecture": [1]},
    ],
)
def test_a_source_is_exactly_one_object(source: Mapping[str, object]) -> None:
    """None, two, an unknown one, or something that is no object are refused with the two that there
    are.
    """
    with pytest.raises(
        InvalidRequestError, match="exactly one object out of hf_config, architecture"
    ):
        make_content(source)


def test_an_unknown_family_is_refused() -> None:
    """Nothing is guessed: the estimator's refusal passes through, naming what is known."""
    with pytest.raises(UnknownModelTypeError, match="llama"):
        make_content({"hf_config": LLAMA | {"model_type": "lama"}})


def test_a_broken_spec_is_refused() -> None:
    """Our own spec is read as strictly as a config."""
    with pytest.raises(InvalidConfigError, match="hiden_size"):
        make_content({"architecture": {"family": "llama", "hiden_size": 1}})


def test_a_model_beyond_counting_is_refused() -> None:
    """What no column holds is refused in words rather than by the database."""
    with pytest.raises(InvalidRequestError, match="9,223,372,036,854,775,807"):
        make_content({"hf_config": LLAMA | {"vocab_size": 10**18}})
