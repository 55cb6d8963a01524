from typing import Literal

Allocator = Literal["default", "expandable_segments"]

ALLOCATOR_VALUES: set[Allocator] = {
    "default",
    "expandable_segments",
}


def check_allocator(value: str) -> Allocator:
    if value in ALLOCATOR_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ALLOCATOR_VALUES!r}")
