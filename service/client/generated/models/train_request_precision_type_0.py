from typing import Literal

TrainRequestPrecisionType0 = Literal[
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

TRAIN_REQUEST_PRECISION_TYPE_0_VALUES: set[TrainRequestPrecisionType0] = {
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


def check_train_request_precision_type_0(value: str) -> TrainRequestPrecisionType0:
    if value in TRAIN_REQUEST_PRECISION_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {TRAIN_REQUEST_PRECISION_TYPE_0_VALUES!r}")
