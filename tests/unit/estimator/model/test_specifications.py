"""Specifications: written by `describe`, and read as strictly."""

import json

import pytest

from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import (
    architecture_from_config,
    architecture_from_spec,
)
from service.estimator.model.families.synthetic import build_synthetic_architecture
from service.estimator.values.errors import (
    EstimatorError,
    InvalidConfigError,
    UnknownModelTypeError,
)
from tests.builders import a_gpt2, a_mixture, a_model


@pytest.mark.parametrize(
    "model",
    [
        a_model(),
        a_gpt2(),
        a_mixture(),
        a_model(sliding_window=64),
        build_synthetic_architecture(10**9),
    ],
)
def test_a_description_reads_back_as_the_same_model(model: Architecture) -> None:
    """``describe`` is JSON, and ``architecture_from_spec`` undoes it."""
    described = json.loads(json.dumps(model.describe()))

    again = architecture_from_spec(described)

    assert again.describe() == described
    assert again.parameter_counts() == model.parameter_counts()
    assert again.fingerprint() == model.fingerprint()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"family": None}, InvalidConfigError, "lacks 'family'"),
        ({"family": "lama"}, UnknownModelTypeError, "Did you mean 'llama'?"),
        ({"hidden": 1}, InvalidConfigError, "unknown field 'hidden'"),
        ({"hidden_size": "64"}, InvalidConfigError, "hidden_size is '64'; it must be of type int"),
        ({"hidden_size": True}, InvalidConfigError, "hidden_size is True; it must be of type int"),
        ({"gated": 1}, InvalidConfigError, "gated is 1; it must be of type bool"),
        ({"hidden_size": 0}, InvalidConfigError, "hidden_size is 0; it must be 1 or more"),
    ],
)
def test_a_wrong_specification_is_refused(
    changes: dict[str, object], error: type[EstimatorError], words: str
) -> None:
    """Our own specification is read as strictly as a config.json."""
    with pytest.raises(error) as refusal:
        architecture_from_spec(a_model().describe() | changes)

    assert words in refusal.value.message


def test_an_incomplete_specification_names_what_is_missing() -> None:
    """A field that has no default must be given."""
    described = a_model().describe()
    del described["vocab_size"]

    with pytest.raises(InvalidConfigError, match="vocab_size"):
        architecture_from_spec(described)


def test_tables_of_no_width_are_refused() -> None:
    """A number that one family alone has is held to the same."""
    described = architecture_from_config({"model_type": "electra"}).describe()

    with pytest.raises(InvalidConfigError, match="embedding_size is -3; it must be 1 or more"):
        architecture_from_spec(described | {"embedding_size": -3})
