from typing import Literal

GenerateRequestVaeDtype = Literal["bf16", "fp16", "fp32"]

GENERATE_REQUEST_VAE_DTYPE_VALUES: set[GenerateRequestVaeDtype] = {
    "bf16",
    "fp16",
    "fp32",
}


def check_generate_request_vae_dtype(value: str) -> GenerateRequestVaeDtype:
    if value in GENERATE_REQUEST_VAE_DTYPE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {GENERATE_REQUEST_VAE_DTYPE_VALUES!r}")
