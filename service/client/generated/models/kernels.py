from typing import Literal

Kernels = Literal["foak", "liger", "torch", "unsloth"]

KERNELS_VALUES: set[Kernels] = {
    "foak",
    "liger",
    "torch",
    "unsloth",
}


def check_kernels(value: str) -> Kernels:
    if value in KERNELS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {KERNELS_VALUES!r}")
