from typing import Literal

HowManyLoraVariant = Literal["dora", "lora", "rslora"]

HOW_MANY_LORA_VARIANT_VALUES: set[HowManyLoraVariant] = {
    "dora",
    "lora",
    "rslora",
}


def check_how_many_lora_variant(value: str) -> HowManyLoraVariant:
    if value in HOW_MANY_LORA_VARIANT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {HOW_MANY_LORA_VARIANT_VALUES!r}")
