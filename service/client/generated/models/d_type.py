from typing import Literal

DType = Literal["bf16", "fp16", "fp32", "fp8"]

D_TYPE_VALUES: set[DType] = {
    "bf16",
    "fp16",
    "fp32",
    "fp8",
}


def check_d_type(value: str) -> DType:
    if value in D_TYPE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {D_TYPE_VALUES!r}")
