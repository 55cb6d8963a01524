"""Encoders that pool on vLLM and SGLang: nothing is kept of a prompt that is read."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, load_config, resolve_model
from service.estimator.backends.paged_pool.encoders import (
    SGLANG_ENCODERS,
    VLLM_ENCODERS,
    count_difference,
)
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import MIB
from service.estimator.values.workload import Engine, Quantization, ServeWorkload

PROMPTS = ServeWorkload(num_sequences=64, prompt_tokens=512, engine=Engine.VLLM)
MINILM, BGE_M3, RERANKER = "all-minilm-l6-v2", "bge-m3", "bge-reranker-v2-m3"


def _serve(
    name: str,
    workload: ServeWorkload = PROMPTS,
    layout: Layout | None = None,
    gpu: str = "L4",
) -> Estimate:
    model = load_architecture(resolve_model(name))
    device = resolve_gpu(gpu).to_device()
    return estimate(model, workload, layout=layout or Layout(), device=device)


def _get_bytes(answer: Estimate, name: str) -> int:
    return sum(part.bytes for part in answer.components if part.name == name)


def test_vllm_takes_what_it_needs_whatever_the_fraction_is() -> None:
    """Without keys and values nothing is profiled and nothing is filled, and the answer says so."""
    half = _serve(BGE_M3, replace(PROMPTS, gpu_memory_fraction=0.5))

    answer = _serve(BGE_M3)

    assert answer.serving is not None
    assert answer.device_bytes == half.device_bytes
    assert answer.serving.kv_pool_bytes == answer.serving.kv_cache_bytes == 0
    assert answer.serving.required_bytes == answer.serving.smallest_bytes
    assert any("gpu_memory_fraction reserves nothing" in text for text in answer.warnings)


def test_sglang_fills_its_fraction_with_keys_and_values_all_the_same() -> None:
    """24 layers of 16 heads of 64 have room for each token that a step of 4,096 reads."""
    answer = _serve(BGE_M3, replace(PROMPTS, engine=Engine.SGLANG))

    assert answer.serving is not None
    assert answer.serving.kv_bytes_per_token == 24 * 2 * 1024 * 2
    assert _get_bytes(answer, "kv_cache") > 12 * 2**30
    assert answer.serving.kv_cache_bytes == 9 * 512 * answer.serving.kv_bytes_per_token


def test_prompts_are_read_in_one_piece() -> None:
    """A step of an L4 has 2,048 tokens, of bge-m3 the 8,192 that its longest prompt has."""
    answers = [_serve(MINILM), _serve(BGE_M3)]

    steps = [
        part.formula
        for answer in answers
        for part in answer.components
        if part.name == "activations"
    ]
    assert ["2048 tokens" in steps[0], "8192 tokens" in steps[1]] == [True, True]
    assert [answer.serving and answer.serving.max_num_sequences for answer in answers] == [4, 16]


@pytest.mark.parametrize(
    ("name", "rules", "difference"),
    [
        # Two types become 64 rows, 512 positions have 8 bytes each; the pooler is left out.
        (MINILM, VLLM_ENCODERS, 62 * 384 * 2 + 512 * 8 - (384 * 384 + 384) * 2),
        (MINILM, SGLANG_ENCODERS, 62 * 384 * 2 + 512 * 2 - (384 * 384 + 384) * 2),
        # 8,194 positions become 8,256 rows, one type 64.
        (BGE_M3, VLLM_ENCODERS, (62 + 63) * 1024 * 2 + 8194 * 8 - (1024 * 1024 + 1024) * 2),
        (BGE_M3, SGLANG_ENCODERS, 8194 * 2 - (1024 * 1024 + 1024) * 2),
        # The head of one score and the layer before it are in fp32 on vLLM.
        (RERANKER, VLLM_ENCODERS, (62 + 63) * 1024 * 2 + 8194 * 8 + (1024 * 1025 + 1025) * 2),
        (RERANKER, SGLANG_ENCODERS, 8194 * 2),
    ],
)
def test_weights_differ_from_the_parameters_by_tables_and_heads(
    name: str,
    rules: Any,  # noqa: ANN401 - the two tables are of one private shape
    difference: int,
) -> None:
    """Each engine pads its tables, drops the pooler of embeddings and has heads of its own."""
    model = load_architecture(resolve_model(name))

    counted = count_difference(model, rules, DType.BF16)

    assert counted == difference


def test_weights_of_an_embedding_are_its_parameters_less_the_pooler() -> None:
    """The allocator's blocks and the padded table of words are what is beside them."""
    model = load_architecture(resolve_model(MINILM))

    answer = _serve(MINILM)

    expected = model.counts.total * 2 + count_difference(model, VLLM_ENCODERS, DType.BF16)
    assert 0 <= _get_bytes(answer, "weights") - expected < 3 * MIB


@pytest.mark.parametrize(
    ("change", "layout", "names"),
    [
        ({"output_tokens": 1}, Layout(), "say 0"),
        ({"engine_version": "0.11.0"}, Layout(), "0.14"),
        ({"max_num_batched_tokens": 4096}, Layout(), "say 8192 or more"),
        ({"quantization": Quantization.FP8}, Layout(), "quantization fp8 of xlm-roberta"),
        ({"engine": Engine.LLAMA_CPP}, Layout(), "engine vllm with bert"),
        ({}, Layout(tensor_parallel=2), "tensor_parallel of xlm-roberta"),
    ],
)
def test_what_has_no_term_is_refused(change: dict[str, Any], layout: Layout, names: str) -> None:
    """Each refusal says what would be right."""
    with pytest.raises((InvalidInputError, NotModelledError)) as refused:
        _serve(BGE_M3, replace(PROMPTS, **change), layout)

    assert names in str(refused.value)


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_a_masked_language_model_is_not_pooled(engine: Engine) -> None:
    """A BERT that predicts words is what neither engine serves."""
    config = {**load_config(resolve_model(MINILM)), "architectures": ["BertForMaskedLM"]}
    device = resolve_gpu("L4").to_device()

    with pytest.raises(NotModelledError, match="head none for embeddings"):
        estimate(
            architecture_from_config(config),
            replace(PROMPTS, engine=engine),
            layout=Layout(),
            device=device,
        )
