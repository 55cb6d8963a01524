from typing import Literal

ReadAccuracyQuantity = Literal["allocated", "device", "prefill_time", "reserved", "step_time"]

READ_ACCURACY_QUANTITY_VALUES: set[ReadAccuracyQuantity] = {
    "allocated",
    "device",
    "prefill_time",
    "reserved",
    "step_time",
}


def check_read_accuracy_quantity(value: str) -> ReadAccuracyQuantity:
    if value in READ_ACCURACY_QUANTITY_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {READ_ACCURACY_QUANTITY_VALUES!r}")
