"""Quantisation is read where everybody reads it, and what two readers would take differently is
refused.
"""

from collections.abc import Mapping

import pytest

from service.catalog.models import load_config, resolve_model
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import EstimatorError, InvalidConfigError

GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}
BNB = {"quant_method": "bitsandbytes"}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (BNB, "neither of load_in_4bit and load_in_8bit"),
        (BNB | {"load_in_4bit": True, "load_in_8bit": True}, "both of load_in_4bit"),
    ],
)
def test_bitsandbytes_says_one_number_of_bits(found: Mapping[str, object], says: str) -> None:
    """Transformers refuses none and both (``BitsAndBytesConfig``), and four bits would be a
    guess.
    """
    with pytest.raises(InvalidConfigError, match=says):
        architecture_from_config(
            {**load_config(resolve_model("gpt2")), "quantization_config": found}
        )


@pytest.mark.parametrize(
    ("model", "more", "field"),
    [
        (
            "gpt2",
            {"compression_config": {"quant_method": "compressed-tensors"}},
            "compression_config",
        ),
        (
            "llava-1.5-7b",
            {"text_config": {"quantization_config": GPTQ}},
            "text_config.quantization_config",
        ),
        (
            "llava-1.5-7b",
            {"text_config": {"compression_config": GPTQ}},
            "text_config.compression_config",
        ),
    ],
)
def test_quantisation_elsewhere_is_refused(
    model: str, more: Mapping[str, object], field: str
) -> None:
    """Engines read these places and transformers does not: to pass them over would answer four
    times the bytes.
    """
    with pytest.raises(EstimatorError, match="at the top of the config") as caught:
        architecture_from_config(_merged(load_config(resolve_model(model)), more))

    assert caught.value.field == field


def test_quantisation_at_the_top_decides() -> None:
    """Where it is said at the top as well, everybody takes that one; null is none."""
    config = _merged(
        load_config(resolve_model("llava-1.5-7b")), {"text_config": {"quantization_config": GPTQ}}
    )

    assert (
        architecture_from_config({**config, "quantization_config": GPTQ}).quantization is not None
    )
    assert (
        architecture_from_config(
            {**load_config(resolve_model("gpt2")), "compression_config": None}
        ).quantization
        is None
    )


def _merged(config: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """Return a config with more fields, those of its parts added to them."""
    parts = {name: part for name, part in config.items() if isinstance(part, Mapping)}
    return {
        **config,
        **{
            name: {**parts.get(name, {}), **part} if isinstance(part, Mapping) else part
            for name, part in more.items()
        },
    }
