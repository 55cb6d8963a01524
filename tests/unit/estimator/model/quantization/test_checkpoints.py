"""Checkpoints that ModelOpt and LLM Compressor write: what is packed, in how many bytes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.quantization.configs import read_quantization
from service.estimator.model.quantization.loading import adopt_cache_format
from service.estimator.model.quantization.weights import weight_bytes
from service.estimator.model.weights.packing import packed_bytes
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import (
    Engine,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from tests.unit.estimator.backends.test_vllm import LLAMA_8B

GPU = resolve_gpu("H100-SXM5-80GB").to_device()
LINEARS, ELSEWHERE = 6_979_321_856, 8_030_261_248 - 6_979_321_856
"""Elements of the layers' 224 matrices; table, head and norms."""
FP8_CACHE = {"num_bits": 8, "type": "float", "dynamic": False}
GROUP = {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float"}}}


def _nvfp4(**more: object) -> dict[str, Any]:
    return {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]} | more


def _read(config: Mapping[str, object]) -> Scheme:
    scheme = read_quantization({"quantization_config": config})
    assert scheme is not None
    return scheme


def _weigh(config: Mapping[str, object]) -> int:
    model = architecture_from_config(LLAMA_8B | {"quantization_config": dict(config)})
    assert model.quantization is not None
    return weight_bytes(model, model.quantization, DType.BF16).total


@pytest.mark.parametrize(
    ("config", "size"),
    [
        # codes of half a byte, a byte per 16 inputs, two fp32 scalars for each matrix
        (_nvfp4(), LINEARS // 2 + LINEARS // 16 + 224 * 8),
        (_nvfp4(quant_algo="W4A16_NVFP4"), LINEARS // 2 + LINEARS // 16 + 224 * 4),
        (_nvfp4(quant_algo="MXFP8"), LINEARS + LINEARS // 32),
        (_nvfp4(quant_algo="FP8"), LINEARS + 224 * 8),
        (
            {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}},
            LINEARS // 2 + LINEARS // 16 + 224 * 8,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "format": "nvfp4-pack-quantized",
                "config_groups": {
                    "group_0": GROUP["group_0"] | {"input_activations": {"num_bits": 4}}
                },
                "ignore": ["lm_head"],
            },
            LINEARS // 2 + LINEARS // 16 + 224 * 8,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "format": "mxfp4-pack-quantized",
                "config_groups": GROUP,
                "ignore": ["lm_head"],
            },
            LINEARS // 2 + LINEARS // 32,
        ),
    ],
)
def test_a_checkpoint_weighs_its_codes_and_scales(config: Mapping[str, object], size: int) -> None:
    """Codes, scales of blocks and of tensors; the table, the excluded head and norms in bf16."""
    assert _weigh(config) == size + 2 * ELSEWHERE


@pytest.mark.parametrize("pattern", ["*self_attn*", "self_attn"])
def test_excluded_modules_are_shell_patterns_or_parts_of_names(pattern: str) -> None:
    """Attention stays in 16 bits: 41,943,040 elements a layer."""
    attention = 32 * 41_943_040
    packed = LINEARS - attention

    assert _weigh(_nvfp4(ignore=["lm_head", pattern])) == (
        packed // 2 + packed // 16 + 96 * 8 + 2 * (ELSEWHERE + attention)
    )


def test_a_layer_can_be_excluded_alone() -> None:
    """``model.layers.0.mlp*`` leaves three matrices of one layer of 32."""
    more = _weigh(_nvfp4(ignore=["lm_head", "model.layers.0.mlp*"])) - _weigh(_nvfp4())
    elements = 3 * 4096 * 14336

    assert more == 2 * elements - elements // 2 - elements // 16 - 3 * 8


def test_rows_of_no_full_block_have_a_scale_for_the_part() -> None:
    """40 inputs are three blocks of 16, and two of 32."""
    nv, mx = Scheme(packing=Packing.NVFP4), Scheme(packing=Packing.MX_BLOCKS)

    assert packed_bytes(8, 40, nv).scales == 8 * 3 + 4
    assert packed_bytes(8, 40, mx).scales == 8 * 2


@pytest.mark.parametrize(
    "config",
    [
        _nvfp4(kv_cache_scheme=FP8_CACHE),
        {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}},
        {
            "quant_method": "compressed-tensors",
            "format": "nvfp4-pack-quantized",
            "config_groups": GROUP,
            "kv_cache_scheme": FP8_CACHE,
        },
    ],
)
def test_scales_of_keys_and_values_make_the_cache_fp8(config: Mapping[str, object]) -> None:
    """vLLM, SGLang and TensorRT-LLM take what the checkpoint has scales for; transformers does
    not.
    """
    model = architecture_from_config(LLAMA_8B | {"quantization_config": dict(config)})
    asked = ServeWorkload(num_sequences=1, prompt_tokens=8, engine=Engine.VLLM)
    alone = replace(asked, engine=Engine.TRANSFORMERS)

    assert _read(config).fp8_cache
    assert adopt_cache_format(model, asked) == replace(asked, kv_cache_dtype=DType.FP8)
    assert adopt_cache_format(model, alone) is alone


@pytest.mark.parametrize("algorithm", ["MIXED_PRECISION", "W4A8_AWQ", None])
def test_other_algorithms_are_refused_by_name(algorithm: str | None) -> None:
    """What has no term says what has."""
    with pytest.raises(NotModelledError, match="quant_algo") as refusal:
        _read(_nvfp4(quant_algo=algorithm))

    assert "NVFP4" in str(refusal.value)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (ServeWorkload(num_sequences=1, prompt_tokens=8), "nvfp4"),
        (TrainWorkload(sequence_length=128), "packed as nvfp4"),
        (
            ServeWorkload(num_sequences=1, prompt_tokens=8, engine=Engine.LLAMA_CPP),
            "GGUF files",
        ),
    ],
)
def test_who_cannot_run_it_refuses_it_in_words(workload: Workload, words: str) -> None:
    """No client of transformers has products with it, and llama.cpp reads files of its own."""
    model = architecture_from_config(LLAMA_8B | {"quantization_config": _nvfp4()})

    with pytest.raises(EstimatorError, match=words):
        estimate(model, workload, layout=Layout(), device=GPU)


def test_the_word_is_the_checkpoint() -> None:
    """``quantization: nvfp4`` of a model in 16 bits is the checkpoint that ModelOpt would make, its
    head too in 16 bits.
    """
    served = ServeWorkload(num_sequences=1, prompt_tokens=8, max_model_len=8, engine=Engine.VLLM)
    sizes = [
        estimate(architecture_from_config(config), workload, layout=Layout(), device=GPU).components
        for config, workload in (
            (LLAMA_8B, replace(served, quantization=Quantization.NVFP4)),
            (LLAMA_8B | {"quantization_config": _nvfp4()}, served),
        )
    ]

    assert sizes[0][0].bytes == sizes[1][0].bytes
