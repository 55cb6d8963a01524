"""What engines keep of a model, where its own library or its checkpoint has another form of it."""

from typing import Any

import pytest

from service.catalog.models import load_config, resolve_model
from service.estimator.backends.llama_cpp.gguf import file_bytes
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, Quantization
from tests.unit.estimator.backends.test_corners import POOLED, serve

_FALCON_TOKEN = 2 * 60 * 8 * 64 * 2
"""Bytes of key and value of falcon-40b's 60 layers, 8 heads of 64, in 16 bits."""


@pytest.mark.parametrize(
    "engine", [one for one in (*POOLED, Engine.LLAMA_CPP) if one is not Engine.TENSORRT_LLM]
)
def test_engines_cache_the_heads_of_a_falcon_as_they_are_projected(engine: Engine) -> None:
    """``total_num_kv_heads = config.num_kv_heads`` (vLLM, ``falcon.py``): transformers alone
    expands them before its cache.
    """
    answers = [serve("falcon-40b", engine)]
    if engine is not Engine.LLAMA_CPP:
        answers.append(serve("falcon-40b", engine, layout=Layout(tensor_parallel=2)))

    held = [answer.serving.kv_bytes_per_token for answer in answers if answer.serving is not None]

    assert held == [_FALCON_TOKEN, _FALCON_TOKEN // 2][: len(answers)]


@pytest.mark.parametrize("quantization", [Quantization.NONE, Quantization.Q4_K_M])
@pytest.mark.parametrize("name", ["gemma-3-4b", "llava-1.5-7b"])
def test_a_file_of_text_has_no_tower(name: str, quantization: Quantization) -> None:
    """GGUF files of models that see are those of their language models; the tower is in an mmproj
    file.
    """
    config = load_config(resolve_model(name))
    text: Any = config["text_config"]

    seeing, reading = (
        file_bytes(architecture_from_config(one), quantization, DType.BF16)
        for one in (config, text)
    )

    assert seeing == reading
    assert any("--mmproj" in line for line in serve(name, Engine.LLAMA_CPP).warnings)


def test_a_file_of_qwen_vl_is_that_of_its_language_model() -> None:
    """Qwen2.5-VL-7B reads with the shape of Qwen2.5-7B."""
    seeing, reading = (
        file_bytes(
            architecture_from_config(load_config(resolve_model(name))),
            Quantization.Q4_K_M,
            DType.BF16,
        )
        for name in ("qwen2.5-vl-7b", "qwen2.5-7b")
    )

    assert seeing == reading


@pytest.mark.parametrize("dtype", [DType.FP16, DType.BF16])
def test_llama_cpp_caches_in_either_sixteen_bits(dtype: DType) -> None:
    """f16 is its own default, whatever the weights are."""
    found = serve("llama-3-8b", Engine.LLAMA_CPP, kv_cache_dtype=dtype).serving

    assert found is not None
    assert found.kv_bytes_per_token == 2 * 32 * 8 * 128 * 2


@pytest.mark.parametrize("dtype", [DType.FP8, DType.FP32])
def test_llama_cpp_refuses_other_caches_with_those_it_takes(dtype: DType) -> None:
    """What one refusal advises, no other refuses."""
    with pytest.raises(NotModelledError, match="modelled: bf16, fp16"):
        serve("llama-3-8b", Engine.LLAMA_CPP, kv_cache_dtype=dtype)


def test_weights_are_told_in_the_format_of_the_config() -> None:
    """A byte a parameter is not two."""
    formula = next(
        part.formula
        for part in serve("qwen3-32b-fp8", max_model_len=4096).components
        if part.name == "weights"
    )

    assert "fp8" in formula
    assert "bf16" not in formula


@pytest.mark.parametrize("name", ["gpt-neo-1.3b", "codegen-350m"])
def test_vllm_refuses_what_its_registry_does_not_list(name: str) -> None:
    """An answer would be one of a server that does not start."""
    with pytest.raises(InvalidInputError, match="no model of"):
        serve(name)
