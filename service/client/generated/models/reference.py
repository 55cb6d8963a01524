from typing import Literal

Reference = Literal["adapters_off", "model", "offloaded", "precomputed"]

REFERENCE_VALUES: set[Reference] = {
    "adapters_off",
    "model",
    "offloaded",
    "precomputed",
}


def check_reference(value: str) -> Reference:
    if value in REFERENCE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {REFERENCE_VALUES!r}")
