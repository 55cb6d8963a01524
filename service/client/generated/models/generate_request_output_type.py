from typing import Literal

GenerateRequestOutputType = Literal["latent", "picture"]

GENERATE_REQUEST_OUTPUT_TYPE_VALUES: set[GenerateRequestOutputType] = {
    "latent",
    "picture",
}


def check_generate_request_output_type(value: str) -> GenerateRequestOutputType:
    if value in GENERATE_REQUEST_OUTPUT_TYPE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {GENERATE_REQUEST_OUTPUT_TYPE_VALUES!r}")
