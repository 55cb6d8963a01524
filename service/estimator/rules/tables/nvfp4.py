"""Hardware that engines need for weights in nvfp4."""

from service.estimator.rules.grammar.conditions import all_of, is_in
from service.estimator.rules.grammar.fields import STORED_AS, workload
from service.estimator.rules.grammar.hardware import HardwareNeed
from service.estimator.values.workload import Engine, Quantization

_STORED = is_in(STORED_AS, Quantization.NVFP4)

NVFP4_NEEDS = (
    HardwareNeed(
        field="workload.quantization",
        when=all_of(is_in(workload.engine, Engine.VLLM), _STORED),
        serves=True,
        what="vLLM's kernel for nvfp4 weights",
        cuda="7.5",
        instead="say quantization gptq_int4, whose kernel runs from 6.0 on",
        source="vLLM 0.33.0, quantization/modelopt.py, get_min_capability",
    ),
    HardwareNeed(
        field="workload.quantization",
        when=all_of(is_in(workload.engine, Engine.SGLANG), _STORED),
        serves=True,
        what="SGLang's kernel for nvfp4 weights",
        cuda="8.0",
        instead="say quantization gptq_int4 or awq_int4",
        source="SGLang 0.5.23, layers/quantization/modelopt_quant.py: Marlin below 10.0",
    ),
    HardwareNeed(
        field="workload.quantization",
        when=all_of(is_in(workload.engine, Engine.TENSORRT_LLM), _STORED),
        serves=True,
        what="TensorRT-LLM's kernel for nvfp4 weights",
        cuda="10.0",
        instead="say quantization fp8 or awq_int4, or engine vllm, which has a kernel from 7.5 on",
        source="https://nvidia.github.io/TensorRT-LLM/1.0.0/features/quantization.html: NVFP4 on "
        "Blackwell alone",
    ),
    HardwareNeed(
        field="workload.quantization",
        when=all_of(is_in(workload.engine, Engine.VLLM, Engine.SGLANG), _STORED),
        serves=True,
        what="fp4 arithmetic",
        cuda="10.0",
        instead="the engine keeps the weights in 4 bits and multiplies in 16 (Marlin), so "
        "that it saves memory and no arithmetic",
        warns=True,
        source="vLLM 0.33.0, quantization/utils/marlin_utils_fp4.py",
    ),
)
