from typing import Literal

GenerateRequestTextEncoderDtype = Literal["bf16", "fp16", "fp32"]

GENERATE_REQUEST_TEXT_ENCODER_DTYPE_VALUES: set[GenerateRequestTextEncoderDtype] = {
    "bf16",
    "fp16",
    "fp32",
}


def check_generate_request_text_encoder_dtype(value: str) -> GenerateRequestTextEncoderDtype:
    if value in GENERATE_REQUEST_TEXT_ENCODER_DTYPE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {GENERATE_REQUEST_TEXT_ENCODER_DTYPE_VALUES!r}")
