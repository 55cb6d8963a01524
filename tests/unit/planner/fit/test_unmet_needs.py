"""What does not run on a GPU is refused in words that help, and what runs in another way is
told.
"""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import list_gpus, resolve_gpu
from service.estimator.rules.grammar.hardware import has_capability
from service.estimator.rules.tables.hardware import NEEDS
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Attention,
    Engine,
    Framework,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.fit.unmet_needs import UnmetNeeds, group_unmet_needs
from tests.unit.planner.samples import model

HALF = ServeWorkload(
    num_sequences=1,
    prompt_tokens=512,
    engine=Engine.VLLM,
    weight_dtype=DType.FP16,
    kv_cache_dtype=DType.FP16,
)
SHORT = TrainWorkload(sequence_length=512)


def _unmet(gpu: str, of_model: str = "mixtral-8x7b") -> UnmetNeeds:
    return UnmetNeeds(model(of_model), resolve_gpu(gpu).to_device())


def test_versions_are_compared_as_numbers() -> None:
    """10.0 is more than 8.9, which no comparison of words says."""
    assert has_capability("10.0", "8.9")
    assert not has_capability("7.5", "8.0")
    assert has_capability(None, "8.0")


def test_every_need_says_what_would_be_right_and_from_where() -> None:
    """A refusal without a way out helps nobody; a need without hardware would be none."""
    for need in NEEDS:
        assert need.instead
        assert len(need.source) > 20
        assert need.cuda or need.gfx


@pytest.mark.parametrize(
    ("gpu", "workload", "field", "said"),
    [
        (
            "P100-SXM2-16GB",
            HALF,
            "workload.engine",
            "needs compute capability 7.0, and P100-SXM2-16GB has 6.0",
        ),
        (
            "V100-SXM2-32GB",
            replace(HALF, engine=Engine.SGLANG),
            "workload.engine",
            "engine sglang needs .* 7.5",
        ),
        (
            "T4",
            replace(HALF, engine=Engine.TENSORRT_LLM),
            "workload.engine",
            "engine tensorrt_llm needs .* 8.0",
        ),
        (
            "T4",
            replace(HALF, weight_dtype=DType.BF16),
            "workload.weight_dtype",
            "say weight_dtype fp16",
        ),
        (
            "V100-SXM2-32GB",
            replace(HALF, quantization=Quantization.FP8),
            "workload.quantization",
            "say quantization gptq",
        ),
        (
            "V100-SXM2-32GB",
            replace(HALF, quantization=Quantization.AWQ_INT4),
            "workload.quantization",
            "kernel for AWQ",
        ),
        (
            "V100-SXM2-32GB",
            replace(HALF, kv_cache_dtype=DType.FP8),
            "workload.kv_cache_dtype",
            "an fp8 cache on vLLM",
        ),
        (
            "MI250X",
            replace(HALF, quantization=Quantization.FP8),
            "workload.quantization",
            "needs gfx942 or gfx950, and MI250X",
        ),
        (
            "A100-SXM4-80GB",
            replace(HALF, engine=Engine.TENSORRT_LLM, quantization=Quantization.FP8),
            "workload.quantization",
            "8.9",
        ),
        (
            "T4",
            replace(HALF, quantization=Quantization.MXFP4),
            "workload.quantization",
            "the kernel of vllm for mxfp4 experts",
        ),
        (
            "T4",
            replace(SHORT, attention=Attention.FLASH),
            "workload.attention",
            "say attention sdpa",
        ),
        (
            "A100-SXM4-80GB",
            replace(SHORT, framework=Framework.TORCHTITAN, float8=True),
            "workload.float8",
            "8.9",
        ),
        (
            "MI250X",
            replace(SHORT, framework=Framework.TORCHTITAN, float8=True),
            "workload.float8",
            "gfx942",
        ),
        (
            "T4",
            replace(SHORT, framework=Framework.MEGATRON),
            "workload.precision",
            "say precision fp16_mixed",
        ),
    ],
)
def test_what_a_gpu_cannot_run_is_refused(
    gpu: str, workload: Workload, field: str, said: str
) -> None:
    """The field, what is needed, what the GPU has, and what would run."""
    with pytest.raises(InvalidInputError, match=said) as refused:
        _unmet(gpu).check(workload)

    assert refused.value.field == field


@pytest.mark.parametrize(
    ("gpu", "workload"),
    [
        ("V100-SXM2-32GB", replace(HALF, quantization=Quantization.GPTQ_INT4)),
        ("T4", replace(HALF, quantization=Quantization.FP8)),
        ("T4", replace(HALF, engine=Engine.SGLANG)),
        ("A100-SXM4-80GB", replace(HALF, quantization=Quantization.MXFP4)),
        ("P100-SXM2-16GB", replace(HALF, engine=Engine.LLAMA_CPP)),
        (
            "L4",
            replace(
                HALF,
                engine=Engine.TENSORRT_LLM,
                quantization=Quantization.FP8,
                kv_cache_dtype=DType.FP8,
            ),
        ),
        ("MI300X", replace(SHORT, framework=Framework.TORCHTITAN, float8=True)),
        (
            "V100-SXM2-32GB",
            replace(SHORT, precision=POLICIES["fp16_mixed"], attention=Attention.EFFICIENT),
        ),
    ],
)
def test_what_runs_there_is_not_refused(gpu: str, workload: Workload) -> None:
    """The least that each needs is enough."""
    _unmet(gpu).check(workload)


@pytest.mark.parametrize(
    ("gpu", "changes", "said"),
    [
        ("A100-SXM4-80GB", {"quantization": Quantization.FP8}, ["multiplies in 16 bits (Marlin)"]),
        ("T4", {"kv_cache_dtype": DType.FP8}, ["unpacks keys and values to 16 bits"]),
        ("L4", {"quantization": Quantization.FP8, "kv_cache_dtype": DType.FP8}, []),
        ("T4", {"engine": Engine.SGLANG, "weight_dtype": DType.BF16}, ["serves in fp16 there"]),
    ],
)
def test_what_runs_in_another_way_is_told(
    gpu: str, changes: dict[str, Any], said: list[str]
) -> None:
    """Weights stay in fp8 and products in 16 bits: the bytes hold, and nobody expects the speed."""
    warnings = _unmet(gpu).list_warnings(replace(HALF, **changes))

    assert len(warnings) == len(said)
    assert all(words in warning for words, warning in zip(said, warnings, strict=True))


def test_the_configs_own_format_counts_and_so_does_its_refusal() -> None:
    """A checkpoint in fp8 needs what quantization fp8 needs, unless it is served unpacked."""
    unmet = _unmet("V100-SXM2-32GB", "deepseek-v3")

    with pytest.raises(InvalidInputError, match="kernel for fp8 weights"):
        unmet.check(HALF)
    unmet.check(replace(HALF, unquantised=True))


def test_gpus_of_today_lack_nothing() -> None:
    """Nothing is asked of a workload on a Blackwell, and of one on a Hopper or Ada nothing but of
    weights in fp4, so that a search there pays nothing.
    """
    unmet = {
        gpu.family: group_unmet_needs(gpu.compute_capability, gpu.gfx_target) for gpu in list_gpus()
    }

    assert not any(unmet[family] for family in ("B200", "GB300", "MI300X", "MI355X", "Gaudi3"))
    needs = [
        need
        for family in ("H100", "H200", "L4")
        for group in unmet[family].values()
        for need in group
    ]
    assert needs
    assert all(need.field == "workload.quantization" and "fp4" in need.what for need in needs)
    assert all(unmet[family] for family in ("P100", "V100", "T4", "A100", "MI250X"))
