from typing import Literal

BatchDetail = Literal["full", "numbers"]

BATCH_DETAIL_VALUES: set[BatchDetail] = {
    "full",
    "numbers",
}


def check_batch_detail(value: str) -> BatchDetail:
    if value in BATCH_DETAIL_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {BATCH_DETAIL_VALUES!r}")
