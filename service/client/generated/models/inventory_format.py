from typing import Literal

InventoryFormat = Literal["dcgm", "dstack", "kubernetes", "nvidia-smi", "ray", "skypilot", "slurm"]

INVENTORY_FORMAT_VALUES: set[InventoryFormat] = {
    "dcgm",
    "dstack",
    "kubernetes",
    "nvidia-smi",
    "ray",
    "skypilot",
    "slurm",
}


def check_inventory_format(value: str) -> InventoryFormat:
    if value in INVENTORY_FORMAT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {INVENTORY_FORMAT_VALUES!r}")
