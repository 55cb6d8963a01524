"""Models that read images on vLLM, against its start-up logs (vLLM 0.19.0 on H100 80GB,
jgchn/llm-d-planner).
"""

from typing import Any

import pytest

from service.catalog.models import load_config, resolve_model
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import InvalidConfigError
from tests.unit.estimator.backends.test_vllm import part, serve


@pytest.mark.parametrize(
    ("model", "weights", "activations", "tokens"),
    [
        ("gemma-3-4b", 8.58, 3.89, 468_144),
        ("gemma-3-12b", 23.31, 3.94, 130_304),
        ("gemma-3-27b", 51.45, 3.99, 36_560),
    ],
)
def test_gemma_3_takes_what_the_logs_print(
    model: str, weights: float, activations: float, tokens: int
) -> None:
    """Tables of eight times the positions; 32 images and their features, which keep their names
    while rows are sampled.
    """
    answer = serve(_config(model), prompt_tokens=8192, max_num_sequences=1024)

    assert part(answer, "weights") == pytest.approx(weights, abs=0.015)
    assert part(answer, "activations") == pytest.approx(activations, abs=0.01)
    assert answer.serving is not None
    assert answer.serving.kv_pool_tokens == pytest.approx(tokens, rel=0.003)


def test_images_fill_the_batch() -> None:
    """LLaVA's 336 x 336 pixels become 576 tokens: a batch of 8192 has room for 14 images and their
    features.
    """
    image = 3 * 336 * 336 + 576 * 4096
    text = dict(_config("llava-1.5-7b")["text_config"])

    seen, blind = (serve(config) for config in (_config("llava-1.5-7b"), text))

    assert (part(seen, "activations") - part(blind, "activations")) * 2**30 == pytest.approx(
        14 * image * 2, rel=0.02
    )


@pytest.mark.parametrize("factor", [0.5, "8", None, 10**6])
def test_a_factor_that_scales_nothing_is_refused(factor: object) -> None:
    """Positions are scaled by a number from 1 on."""
    config = _config("gemma-3-1b") | {"rope_scaling": {"rope_type": "linear", "factor": factor}}

    with pytest.raises(InvalidConfigError, match="linear scaling by"):
        architecture_from_config(config)


def test_releases_name_the_scaling_by_kind_of_layer() -> None:
    """Transformers 5 writes ``rope_parameters`` with an entry for each kind."""
    old = _config("gemma-3-1b") | {"rope_scaling": {"type": "linear", "factor": 8.0}}
    new = _config("gemma-3-1b") | {
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    }

    assert (
        architecture_from_config(old).rotary_stretch
        == architecture_from_config(new).rotary_stretch
        == 8
    )


def _config(name: str) -> dict[str, Any]:
    return dict(load_config(resolve_model(name)))
