from typing import Literal

HowManyPrecision = Literal[
    "amp_bf16",
    "amp_fp16",
    "bf16",
    "bf16_autocast",
    "bf16_mixed",
    "deepspeed_bf16",
    "fp16",
    "fp16_autocast",
    "fp16_mixed",
    "fp32",
    "megatron_bf16",
]

HOW_MANY_PRECISION_VALUES: set[HowManyPrecision] = {
    "amp_bf16",
    "amp_fp16",
    "bf16",
    "bf16_autocast",
    "bf16_mixed",
    "deepspeed_bf16",
    "fp16",
    "fp16_autocast",
    "fp16_mixed",
    "fp32",
    "megatron_bf16",
}


def check_how_many_precision(value: str) -> HowManyPrecision:
    if value in HOW_MANY_PRECISION_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {HOW_MANY_PRECISION_VALUES!r}")
