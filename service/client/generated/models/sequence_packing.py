from typing import Literal

SequencePacking = Literal["none", "packed", "padding_free"]

SEQUENCE_PACKING_VALUES: set[SequencePacking] = {
    "none",
    "packed",
    "padding_free",
}


def check_sequence_packing(value: str) -> SequencePacking:
    if value in SEQUENCE_PACKING_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {SEQUENCE_PACKING_VALUES!r}")
