from typing import Literal

LoraRequestVariant = Literal["dora", "lora", "rslora"]

LORA_REQUEST_VARIANT_VALUES: set[LoraRequestVariant] = {
    "dora",
    "lora",
    "rslora",
}


def check_lora_request_variant(value: str) -> LoraRequestVariant:
    if value in LORA_REQUEST_VARIANT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LORA_REQUEST_VARIANT_VALUES!r}")
