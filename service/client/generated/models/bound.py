from typing import Literal

Bound = Literal["gpu", "host"]

BOUND_VALUES: set[Bound] = {
    "gpu",
    "host",
}


def check_bound(value: str) -> Bound:
    if value in BOUND_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {BOUND_VALUES!r}")
