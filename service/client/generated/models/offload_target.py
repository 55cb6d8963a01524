from typing import Literal

OffloadTarget = Literal["cpu", "none", "nvme"]

OFFLOAD_TARGET_VALUES: set[OffloadTarget] = {
    "cpu",
    "none",
    "nvme",
}


def check_offload_target(value: str) -> OffloadTarget:
    if value in OFFLOAD_TARGET_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {OFFLOAD_TARGET_VALUES!r}")
