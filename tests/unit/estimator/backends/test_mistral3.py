"""Mistral Small 3.1 on vLLM, against its start-up logs (vLLM 0.19.0 on H100 80GB,
jgchn/llm-d-planner).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import EstimatorError, InvalidConfigError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload
from tests.unit.estimator.backends.test_vllm import part, serve

W8A8 = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "ignore": ["language_model.lm_head", "re:vision_tower.*", "re:multi_modal_projector.*"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
        },
    },
}


@pytest.mark.parametrize(
    ("more", "ranks", "weights", "activations", "tokens"),
    [
        ({}, 1, 44.76, 2.03, 184_752),
        ({"quantization_config": W8A8}, 2, 12.11, 2.03, 773_584),
    ],
)
def test_the_logs_print_what_is_said(
    more: Mapping[str, object], ranks: int, weights: float, activations: float, tokens: int
) -> None:
    """A tower of Pixtral beside the text, split as that is; two images of 1540 x 1540 pixels in a
    batch of 8192 tokens.
    """
    layout = Layout(tensor_parallel=ranks)

    answer = serve(
        _config(**more),
        layout=layout,
        prompt_tokens=8192,
        max_num_sequences=1024,
        max_model_len=8192,
    )

    assert part(answer, "weights") == pytest.approx(weights, rel=0.002)
    assert part(answer, "activations") == pytest.approx(activations, abs=0.005)
    assert answer.serving is not None
    assert answer.serving.kv_pool_tokens == pytest.approx(tokens, rel=0.003)


def test_images_are_refused_rather_than_guessed() -> None:
    """Text has all of its terms, the tower's work has none."""
    model, gpu = architecture_from_config(_config()), resolve_gpu("H100-SXM5-80GB").to_device()
    text = ServeWorkload(num_sequences=1, prompt_tokens=200)

    assert (
        "the image tower of mistral3 is loaded and idle"
        in estimate(model, text, layout=Layout(), device=gpu).warnings[0]
    )
    with pytest.raises(NotModelledError, match="text alone, with the tower loaded and idle"):
        estimate(model, replace(text, num_images=1, image_tokens=100), layout=Layout(), device=gpu)


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"vision_feature_layer": -2}, NotModelledError, "vision_feature_layer -2"),
        (
            {"text_config": {"model_type": "llama"}},
            NotModelledError,
            "text_config of model_type 'llama'",
        ),
        (
            {"vision_config": {"model_type": "siglip_vision_model"}},
            NotModelledError,
            "vision_config of model_type",
        ),
        (
            {"vision_config": {"num_attention_heads": 7}},
            InvalidConfigError,
            "not divisible by its num_attention_heads 7",
        ),
    ],
)
def test_other_towers_are_refused(
    more: Mapping[str, object], error: type[EstimatorError], words: str
) -> None:
    """Other parts than mistral and pixtral, features of another layer, and heads of unequal
    width.
    """
    with pytest.raises(error, match=words):
        architecture_from_config(_config(**more))


def _config(**more: object) -> dict[str, Any]:
    return dict(load_config(resolve_model("mistralai/Mistral-Small-3.1-24B-Instruct-2503"))) | more
