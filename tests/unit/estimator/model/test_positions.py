"""Positions that a config scales, as each engine derives its longest sequence of them."""

from collections.abc import Mapping

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.positions import count_served_positions
from service.estimator.values.errors import InvalidConfigError, InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, ServeWorkload
from tests.tiny_models import tiny_config

H100 = resolve_gpu("H100-SXM5-80GB").to_device()
LINEAR = {"type": "linear", "factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LLAMA_3 = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        (None, {Engine.VLLM: 40960, Engine.SGLANG: 40960}),
        (LINEAR, {Engine.VLLM: 163840, Engine.SGLANG: 163840, Engine.LLAMA_CPP: 40960}),
        (LINEAR, {Engine.TENSORRT_LLM: 163840, Engine.TGI: 40960, Engine.LMDEPLOY: 40960}),
        ({**LINEAR, "type": "dynamic"}, {Engine.VLLM: 163840, Engine.SGLANG: 163840}),
        (YARN, {Engine.VLLM: 131072, Engine.SGLANG: 40960, Engine.TRANSFORMERS: 40960}),
        ({"rope_type": "yarn", "factor": 4.0}, {Engine.SGLANG: 163840, Engine.TENSORRT_LLM: 40960}),
        (LLAMA_3, {Engine.VLLM: 40960, Engine.SGLANG: 40960, Engine.TENSORRT_LLM: 40960}),
        ({"rope_type": "longrope", "short_factor": [1.0]}, {Engine.VLLM: 40960}),
    ],
)
def test_each_engine_scales_positions_by_its_own_rule(
    scaling: Mapping[str, object] | None, expected: Mapping[Engine, int]
) -> None:
    """VLLM starts at what yarn names, SGLang multiplies only where nothing is named."""
    config = tiny_config("llama") | {"max_position_embeddings": 40960, "rope_scaling": scaling}
    spec = architecture_from_config(config).spec

    assert {engine: count_served_positions(spec, engine) for engine in expected} == expected


def test_positions_that_are_scaled_already_are_left_alone() -> None:
    """DeepSeek-V3's 163,840 are 40 x 4,096, Gemma 3's are what its factor has made."""
    for name, positions in (("deepseek-v3", 163_840), ("gemma-3-27b", 131_072)):
        spec = load_architecture(resolve_model(name)).spec

        assert count_served_positions(spec, Engine.VLLM) == positions
        assert spec.position_factor == 1.0


@pytest.mark.parametrize("factor", [0.5, "4", True, 1e9])
def test_a_factor_that_no_engine_reads_is_refused(factor: object) -> None:
    """The field is named, and what it may be."""
    config = tiny_config("llama") | {"rope_scaling": {"type": "linear", "factor": factor}}

    with pytest.raises(InvalidConfigError, match="from 1 to 1,024"):
        architecture_from_config(config)


@pytest.mark.parametrize("original", [-32_768, 0, True, "32768", 1.5])
def test_a_start_that_no_scaling_has_is_refused(original: object) -> None:
    """What it may be is said, and nothing is made of it."""
    scaling = YARN | {"original_max_position_embeddings": original}

    with pytest.raises(InvalidConfigError, match="a whole number of at least 1"):
        architecture_from_config(tiny_config("llama") | {"rope_scaling": scaling})


def test_an_engine_needs_room_for_the_scaled_length() -> None:
    """deepseek-coder-6.7b has 16,384 positions, scaled by 4: vLLM starts for 65,536 tokens of half
    a MiB each, and TGI for a quarter of them.
    """
    model = load_architecture(resolve_model("deepseek-coder-6.7b"))
    loads = {
        engine: ServeWorkload(
            engine=engine, num_sequences=1, prompt_tokens=20_000, output_tokens=128
        )
        for engine in (Engine.VLLM, Engine.TGI)
    }

    answer = estimate(model, loads[Engine.VLLM], layout=Layout(), device=H100)
    assert answer.serving is not None
    assert answer.serving.smallest_bytes is not None
    assert answer.serving.smallest_bytes > 65_536 * 2**19
    with pytest.raises(InvalidInputError, match="16384"):
        estimate(model, loads[Engine.TGI], layout=Layout(), device=H100)
