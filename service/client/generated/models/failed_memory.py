from typing import Literal

FailedMemory = Literal["gpu", "host", "none"]

FAILED_MEMORY_VALUES: set[FailedMemory] = {
    "gpu",
    "host",
    "none",
}


def check_failed_memory(value: str) -> FailedMemory:
    if value in FAILED_MEMORY_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {FAILED_MEMORY_VALUES!r}")
