"""Needs of programs on a GPU.

At least a CUDA compute capability, or one of AMD's targets, or a maker that they are made for.
Below it they do not start, or the rule only warns.
"""

from collections.abc import Mapping

from service.estimator.rules.grammar.conditions import all_of, is_in, is_true
from service.estimator.rules.grammar.fields import STORED_AS, precision, workload
from service.estimator.rules.grammar.hardware import HardwareNeed, Makers
from service.estimator.rules.tables.nvfp4 import NVFP4_NEEDS
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention, Engine, Framework, Quantization

_FP8_TARGETS = ("gfx942", "gfx950")

MADE_FOR: Mapping[Engine | Framework, Makers] = {
    Engine.TENSORRT_LLM: Makers(
        name="TensorRT-LLM",
        vendors=frozenset({"nvidia"}),
        source="https://nvidia.github.io/TensorRT-LLM/supported-hardware.html",
    ),
    Framework.MEGATRON: Makers(
        name="Megatron-LM with the Transformer Engine, as it is modelled,",
        vendors=frozenset({"nvidia", "amd"}),
        source="Megatron-LM's README, Quick Start: transformer-engine[pytorch]; "
        "github.com/ROCm/TransformerEngine",
    ),
}
"""Whose GPUs a program runs on."""
NEEDS = (
    HardwareNeed(
        field="workload.engine",
        when=is_in(workload.engine, Engine.VLLM),
        serves=True,
        what="engine vllm",
        cuda="7.0",
        instead="engine llama_cpp or transformers serves there",
        source="vLLM 0.19.0, docs/getting_started/installation/gpu.cuda.inc.md: compute "
        "capability 7.0 or higher",
    ),
    HardwareNeed(
        field="workload.engine",
        when=is_in(workload.engine, Engine.SGLANG),
        serves=True,
        what="engine sglang",
        cuda="7.5",
        instead="engine llama_cpp or transformers serves there, and vllm from 7.0 on",
        source="SGLang 0.5.6, python/sglang/srt/model_executor/model_runner.py: SGLang only "
        "supports sm75 and above",
    ),
    HardwareNeed(
        field="workload.engine",
        when=is_in(workload.engine, Engine.TENSORRT_LLM),
        serves=True,
        what="engine tensorrt_llm",
        cuda="8.0",
        instead="engine llama_cpp or transformers serves there, and vllm from 7.0 on",
        source="https://nvidia.github.io/TensorRT-LLM/0.18.2/reference/support-matrix.html: "
        "Ampere (SM80, SM86) and newer",
    ),
    HardwareNeed(
        field="workload.weight_dtype",
        when=all_of(is_in(workload.engine, Engine.VLLM), is_in(workload.weight_dtype, DType.BF16)),
        serves=True,
        what="weight_dtype bf16 on vLLM",
        cuda="8.0",
        instead="say weight_dtype fp16, of as many bytes",
        source="vLLM 0.19.0, vllm/platforms/cuda.py, check_if_supports_dtype",
    ),
    HardwareNeed(
        field="workload.weight_dtype",
        when=all_of(
            is_in(workload.engine, Engine.SGLANG), is_in(workload.weight_dtype, DType.BF16)
        ),
        serves=True,
        what="weight_dtype bf16 on SGLang",
        cuda="8.0",
        instead="it serves in fp16 there, of as many bytes",
        warns=True,
        source="SGLang 0.5.6, python/sglang/srt/model_executor/model_runner.py: Use float16 due "
        "to lack of bfloat16 support",
    ),
    HardwareNeed(
        field="workload.quantization",
        when=all_of(is_in(workload.engine, Engine.VLLM), is_in(STORED_AS, Quantization.FP8)),
        serves=True,
        what="vLLM's kernel for fp8 weights",
        cuda="7.5",
        gfx=_FP8_TARGETS,
        instead="say quantization gptq_int4 or int8, or a GPU that has it",
        source="vLLM 0.19.0, quantization/fp8.py, get_min_capability, and "
        "quantization/utils/marlin_utils_fp8.py; platforms/rocm.py, supports_fp8: gfx94, gfx95 "
        "and gfx12",
    ),
    HardwareNeed(
        field="workload.quantization",
        when=all_of(is_in(workload.engine, Engine.VLLM), is_in(STORED_AS, Quantization.FP8)),
        serves=True,
        what="fp8 arithmetic",
        cuda="8.9",
        instead="vLLM keeps the weights in fp8 and multiplies in 16 bits (Marlin), so that it "
        "saves memory and no arithmetic",
        warns=True,
        source="https://docs.vllm.ai/en/v0.32.0/features/quantization/llm_compressor/fp8/: W8A16 "
        "on Turing and Ampere",
    ),
    HardwareNeed(
        field="workload.quantization",
        when=all_of(is_in(workload.engine, Engine.SGLANG), is_in(STORED_AS, Quantization.FP8)),
        serves=True,
        what="SGLang's kernel for fp8 weights",
        cuda="8.0",
        gfx=_FP8_TARGETS,
        instead="say quantization gptq_int4 or awq_int4",
        source="SGLang 0.5.6, layers/quantization/fp8.py, get_min_capability; "
        "layers/quantization/fp8_utils.py, can_auto_enable_marlin_fp8: 8.0 up to 8.9",
    ),
    HardwareNeed(
        field="workload.quantization",
        when=all_of(is_in(workload.engine, Engine.SGLANG), is_in(STORED_AS, Quantization.FP8)),
        serves=True,
        what="fp8 arithmetic",
        cuda="8.9",
        instead="SGLang keeps the weights in fp8 and multiplies in 16 bits (Marlin), so that it "
        "saves memory and no arithmetic",
        warns=True,
        source="SGLang 0.5.6, layers/quantization/fp8_utils.py, can_auto_enable_marlin_fp8",
    ),
    HardwareNeed(
        field="workload.quantization",
        when=all_of(
            is_in(workload.engine, Engine.TENSORRT_LLM), is_in(STORED_AS, Quantization.FP8)
        ),
        serves=True,
        what="TensorRT-LLM's kernel for fp8 weights",
        cuda="8.9",
        instead="say quantization awq_int4 or gptq_int4, or engine vllm, which has a kernel from "
        "7.5 on",
        source="https://nvidia.github.io/TensorRT-LLM/0.18.2/reference/support-matrix.html, "
        "Precision: Ampere has no FP8",
    ),
    HardwareNeed(
        field="workload.quantization",
        when=all_of(
            is_in(workload.engine, Engine.TRANSFORMERS), is_in(STORED_AS, Quantization.FP8)
        ),
        serves=True,
        what="transformers' kernel for fp8 weights",
        cuda="8.9",
        instead="they would be unpacked to bf16; say quantization int8 or nf4, or engine vllm, "
        "which has a kernel from 7.5 on",
        source="transformers 5.23, quantizers/quantizer_finegrained_fp8.py, validate_environment",
    ),
    HardwareNeed(
        field="workload.kv_cache_dtype",
        when=all_of(is_in(workload.engine, Engine.VLLM), is_in(workload.kv_cache_dtype, DType.FP8)),
        serves=True,
        what="an fp8 cache on vLLM",
        cuda="7.5",
        instead="FlashInfer reads one from there on; say the kv_cache_dtype of the weights",
        source="vLLM 0.19.0, v1/attention/backends/flashinfer.py, supports_compute_capability "
        "and supported_kv_cache_dtypes",
    ),
    HardwareNeed(
        field="workload.kv_cache_dtype",
        when=is_in(workload.kv_cache_dtype, DType.FP8),
        serves=True,
        what="arithmetic of an fp8 cache",
        cuda="8.9",
        gfx=_FP8_TARGETS,
        instead="the engine unpacks keys and values to 16 bits where it has a kernel for that, "
        "and refuses to start where it has none",
        warns=True,
        source="vLLM 0.19.0, v1/attention/backends/fa_utils.py, flash_attn_supports_fp8: only "
        "FlashAttention 3 on Hopper reads fp8 itself",
    ),
    HardwareNeed(
        field="workload.quantization",
        when=all_of(is_in(workload.engine, Engine.VLLM), is_in(STORED_AS, Quantization.AWQ_INT4)),
        serves=True,
        what="vLLM's kernel for AWQ",
        cuda="7.5",
        instead="say quantization gptq_int4, whose kernel runs from 6.0 on",
        source="vLLM 0.19.0, quantization/awq.py and awq_marlin.py, get_min_capability; "
        "quantization/gptq.py",
    ),
    HardwareNeed(
        field="workload.quantization",
        when=all_of(
            is_in(workload.engine, Engine.VLLM, Engine.SGLANG), is_in(STORED_AS, Quantization.MXFP4)
        ),
        serves=True,
        what="the kernel of {workload.engine} for mxfp4 experts",
        cuda="8.0",
        instead="engine llama_cpp or transformers serves them there",
        source="vLLM 0.19.0, quantization/mxfp4.py, get_min_capability; SGLang 0.5.6, "
        "layers/quantization/mxfp4.py, the same",
    ),
    *NVFP4_NEEDS,
    HardwareNeed(
        field="workload.quantization",
        when=all_of(
            is_in(workload.engine, Engine.TRANSFORMERS), is_in(STORED_AS, Quantization.MXFP4)
        ),
        serves=True,
        what="transformers' kernel for mxfp4 experts",
        cuda="7.5",
        instead="they would be unpacked to bf16; engine llama_cpp serves them there",
        source="transformers 5.23, quantizers/quantizer_mxfp4.py, validate_environment",
    ),
    HardwareNeed(
        field="workload.attention",
        when=all_of(
            is_in(workload.engine, Engine.TRANSFORMERS), is_in(workload.attention, Attention.FLASH)
        ),
        serves=True,
        what="attention flash",
        cuda="8.0",
        instead="say attention sdpa, which takes the kernel that the GPU has, or efficient",
        source="PyTorch 2.13, aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, "
        "check_flash_attention_hardware_support; flash-attn's README: Ampere and newer",
    ),
    HardwareNeed(
        field="workload.attention",
        when=is_in(workload.attention, Attention.FLASH),
        serves=False,
        what="attention flash",
        cuda="8.0",
        instead="say attention sdpa, which takes the kernel that the GPU has, or efficient",
        source="PyTorch 2.13, aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, "
        "check_flash_attention_hardware_support; flash-attn's README: Ampere and newer",
    ),
    HardwareNeed(
        field="workload.float8",
        when=is_true(workload.float8),
        serves=False,
        what="float8 training",
        cuda="8.9",
        gfx=_FP8_TARGETS,
        instead="leave float8 out, or take a GPU that has it",
        source="torchtitan 0.3.0, components/quantization/float8.py: NVIDIA SM89 or later, or "
        "AMD gfx942 or later",
    ),
    HardwareNeed(
        field="workload.precision",
        when=all_of(
            is_in(workload.framework, Framework.MEGATRON),
            is_in(precision.compute_dtype, DType.BF16),
        ),
        serves=False,
        what="bf16 of the Transformer Engine, which framework megatron is modelled with,",
        cuda="8.0",
        instead="say precision fp16_mixed, of as many bytes, or framework transformers",
        source="https://nvidia.github.io/TransformerEngine/support_matrix.html: BF16 requires "
        "compute capability 8.0 or higher",
    ),
    HardwareNeed(
        field="workload.framework",
        when=all_of(
            is_in(workload.framework, Framework.MEGATRON),
            is_in(workload.attention, Attention.SDPA, Attention.FLASH),
        ),
        serves=False,
        what="attention of framework megatron, whose term is of a kernel that fuses,",
        cuda="8.0",
        instead="say attention eager, or framework transformers",
        source="flash-attn's README: Ampere and newer; cuDNN's fused attention the same",
    ),
    *(
        HardwareNeed(
            field="workload.framework",
            when=is_in(workload.framework, framework),
            serves=False,
            what=f"attention of framework {framework.value}, whose term is of flash,",
            cuda="8.0",
            instead="say framework transformers, whose kernels on such GPUs have terms",
            source="PyTorch 2.13, aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, "
            "check_flash_attention_hardware_support",
        )
        for framework in (Framework.TORCHTITAN, Framework.LITGPT)
    ),
)
