from typing import Literal

LoraKernel = Literal["mlp", "o", "qkv"]

LORA_KERNEL_VALUES: set[LoraKernel] = {
    "mlp",
    "o",
    "qkv",
}


def check_lora_kernel(value: str) -> LoraKernel:
    if value in LORA_KERNEL_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LORA_KERNEL_VALUES!r}")
