"""Layers of EXAONE 4, local and global."""

import pytest

from service.catalog.models import load_config, resolve_model
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import InvalidConfigError


def test_a_pattern_of_letters_is_a_period() -> None:
    """EXAONE 4 32B's config.json says LLLG where its class's default says four."""
    config = dict(load_config(resolve_model("exaone-4.0-32b")))
    in_letters, in_numbers, other = (
        architecture_from_config({**config, "sliding_window_pattern": pattern})
        for pattern in ("LLLG", 4, "LG")
    )

    assert in_letters.spec == in_numbers.spec != other.spec
    with pytest.raises(InvalidConfigError, match="sliding_window_pattern"):
        architecture_from_config({**config, "sliding_window_pattern": "GLL"})
