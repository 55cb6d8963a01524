from typing import Literal

TrainCeilingPrecisionType0 = Literal[
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

TRAIN_CEILING_PRECISION_TYPE_0_VALUES: set[TrainCeilingPrecisionType0] = {
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


def check_train_ceiling_precision_type_0(value: str) -> TrainCeilingPrecisionType0:
    if value in TRAIN_CEILING_PRECISION_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {TRAIN_CEILING_PRECISION_TYPE_0_VALUES!r}")
