from typing import Literal

ConstraintsFrameworksItem = Literal["ddp", "deepspeed", "fsdp1", "fsdp2", "megatron", "torchtitan", "transformers"]

CONSTRAINTS_FRAMEWORKS_ITEM_VALUES: set[ConstraintsFrameworksItem] = {
    "ddp",
    "deepspeed",
    "fsdp1",
    "fsdp2",
    "megatron",
    "torchtitan",
    "transformers",
}


def check_constraints_frameworks_item(value: str) -> ConstraintsFrameworksItem:
    if value in CONSTRAINTS_FRAMEWORKS_ITEM_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CONSTRAINTS_FRAMEWORKS_ITEM_VALUES!r}")
