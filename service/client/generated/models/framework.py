from typing import Literal

Framework = Literal["megatron", "torchtitan", "transformers"]

FRAMEWORK_VALUES: set[Framework] = {
    "megatron",
    "torchtitan",
    "transformers",
}


def check_framework(value: str) -> Framework:
    if value in FRAMEWORK_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {FRAMEWORK_VALUES!r}")
