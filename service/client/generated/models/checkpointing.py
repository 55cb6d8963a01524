from typing import Literal

Checkpointing = Literal["full", "none", "selective"]

CHECKPOINTING_VALUES: set[Checkpointing] = {
    "full",
    "none",
    "selective",
}


def check_checkpointing(value: str) -> Checkpointing:
    if value in CHECKPOINTING_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CHECKPOINTING_VALUES!r}")
