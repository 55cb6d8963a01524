from typing import Literal

LoraRequestTargetModulesType0 = Literal["all-linear"]

LORA_REQUEST_TARGET_MODULES_TYPE_0_VALUES: set[LoraRequestTargetModulesType0] = {
    "all-linear",
}


def check_lora_request_target_modules_type_0(value: str) -> LoraRequestTargetModulesType0:
    if value in LORA_REQUEST_TARGET_MODULES_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LORA_REQUEST_TARGET_MODULES_TYPE_0_VALUES!r}")
