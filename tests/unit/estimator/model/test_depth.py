"""How deep a model may be that is answered at once."""

from collections.abc import Mapping

import pytest

from service.estimator.model.families.registry import (
    architecture_from_config,
    architecture_from_spec,
)
from service.estimator.values.errors import InvalidConfigError
from tests.builders import a_config, a_model


@pytest.mark.parametrize(
    "config",
    [
        a_config(num_hidden_layers=513),
        {"model_type": "gpt2", "n_layer": 10**9},
        {"model_type": "qwen3", "num_hidden_layers": 10**12},
        {"model_type": "llava", "vision_config": {"num_hidden_layers": 10**6}},
    ],
)
def test_a_stack_without_an_end_is_refused_before_it_is_built(config: Mapping[str, object]) -> None:
    """One small question must not take a server's time and memory: depth is bounded in every part
    of a config.
    """
    with pytest.raises(InvalidConfigError, match="at most 512 layers are answered"):
        architecture_from_config(config)


def test_our_own_specification_is_bounded_as_well() -> None:
    """It has the depth under its own name."""
    described = a_model().describe()

    with pytest.raises(InvalidConfigError, match="at most 512 layers"):
        architecture_from_spec(described | {"num_hidden_layers": 10**6})
