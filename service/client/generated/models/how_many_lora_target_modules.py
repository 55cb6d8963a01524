from typing import Literal

HowManyLoraTargetModules = Literal["all-linear"]

HOW_MANY_LORA_TARGET_MODULES_VALUES: set[HowManyLoraTargetModules] = {
    "all-linear",
}


def check_how_many_lora_target_modules(value: str) -> HowManyLoraTargetModules:
    if value in HOW_MANY_LORA_TARGET_MODULES_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {HOW_MANY_LORA_TARGET_MODULES_VALUES!r}")
