from typing import Literal

ConstraintsAllowItem = Literal["offload", "quantization"]

CONSTRAINTS_ALLOW_ITEM_VALUES: set[ConstraintsAllowItem] = {
    "offload",
    "quantization",
}


def check_constraints_allow_item(value: str) -> ConstraintsAllowItem:
    if value in CONSTRAINTS_ALLOW_ITEM_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CONSTRAINTS_ALLOW_ITEM_VALUES!r}")
