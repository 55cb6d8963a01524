from typing import Literal

GenerateRequestDtype = Literal["bf16", "fp16", "fp32"]

GENERATE_REQUEST_DTYPE_VALUES: set[GenerateRequestDtype] = {
    "bf16",
    "fp16",
    "fp32",
}


def check_generate_request_dtype(value: str) -> GenerateRequestDtype:
    if value in GENERATE_REQUEST_DTYPE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {GENERATE_REQUEST_DTYPE_VALUES!r}")
