"""Gemma 3 with its vision tower: the weights are counted, text alone is served as by the text
model.
"""

from collections.abc import Mapping

import pytest

from service.catalog.models import load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.families.vision.gemma3 import POSITION_BYTES
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidConfigError, NotModelledError
from service.estimator.values.layout import Layout
from tests.builders import a_device, a_serving

_SIGLIP_LAYER = 15_239_504
"""Parameters of a layer of SigLIP-so400m: 4 (h² + h) + 2hi + i + h + 4h with h 1152, i 4304."""


def _config() -> dict[str, object]:
    return dict(load_config(resolve_model("gemma-3-4b")))


def _changed(part: str, **changes: object) -> dict[str, object]:
    config = _config()
    nested = config[part]
    assert isinstance(nested, Mapping)
    return config | {part: {**nested, **changes}}


def _text_alone() -> Architecture:
    text = _config()["text_config"]
    assert isinstance(text, Mapping)
    return architecture_from_config(text)


def test_the_tower_stands_beside_the_text_model() -> None:
    """27 layers, patches of 14 x 14 x 3, 4096 positions, a last norm, and a projection to the text
    model's width.
    """
    both, text = (
        architecture_from_config(_config()).parameter_counts(),
        _text_alone().parameter_counts(),
    )
    patches = 14 * 14 * 3 * 1152 + 1152

    assert both.by_module["vision"] == 27 * _SIGLIP_LAYER + patches + 2 * 1152
    assert both.by_module["other"] == 1152 * 2560
    assert both.by_module["embedding"] == text.by_module["embedding"] + 4096 * 1152
    assert both.num_tensors == text.num_tensors + 27 * 16 + 3 + 2 + 2


def test_text_is_served_as_by_the_text_model() -> None:
    """The tower adds its weights and the positions of its patches to every instant, and nothing
    else.
    """
    both, text = architecture_from_config(_config()), _text_alone()
    workload = a_serving(prompt_tokens=2048, output_tokens=8)
    tower = both.weight_bytes(DType.BF16) - text.weight_bytes(DType.BF16) + POSITION_BYTES * 4096

    answers = [
        estimate(model, workload, layout=Layout(), device=a_device()) for model in (both, text)
    ]

    for with_tower, without in zip(answers[0].instants, answers[1].instants, strict=True):
        assert with_tower.allocated_bytes == without.allocated_bytes + tower


@pytest.mark.parametrize(
    ("config", "kind", "field"),
    [
        (_config() | {"text_config": 7}, InvalidConfigError, "text_config"),
        (_config() | {"vision_config": "siglip"}, InvalidConfigError, "vision_config"),
        (
            _changed("vision_config", model_type="clip_vision_model"),
            InvalidConfigError,
            "vision_config",
        ),
        (_changed("vision_config", vision_use_head=True), NotModelledError, "vision_config"),
    ],
)
def test_another_tower_is_refused(
    config: Mapping[str, object], kind: type[Exception], field: str
) -> None:
    """Only SigLIP without its pooling head is the tower of a gemma 3."""
    with pytest.raises(kind) as refusal:
        architecture_from_config(config)

    assert getattr(refusal.value, "field", None) == field
