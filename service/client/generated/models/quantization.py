from typing import Literal

Quantization = Literal[
    "awq_int4", "fp8", "gptq_int4", "int8", "mxfp4", "nf4", "none", "nvfp4", "q4_0", "q4_k_m", "q5_k_m", "q6_k", "q8_0"
]

QUANTIZATION_VALUES: set[Quantization] = {
    "awq_int4",
    "fp8",
    "gptq_int4",
    "int8",
    "mxfp4",
    "nf4",
    "none",
    "nvfp4",
    "q4_0",
    "q4_k_m",
    "q5_k_m",
    "q6_k",
    "q8_0",
}


def check_quantization(value: str) -> Quantization:
    if value in QUANTIZATION_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {QUANTIZATION_VALUES!r}")
