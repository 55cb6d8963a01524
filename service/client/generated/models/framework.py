from typing import Literal

Framework = Literal["litgpt", "megatron", "torchtitan", "transformers"]

FRAMEWORK_VALUES: set[Framework] = {
    "litgpt",
    "megatron",
    "torchtitan",
    "transformers",
}


def check_framework(value: str) -> Framework:
    if value in FRAMEWORK_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {FRAMEWORK_VALUES!r}")
