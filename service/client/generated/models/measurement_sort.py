from typing import Literal

MeasurementSort = Literal["-created_at", "-error", "created_at", "error"]

MEASUREMENT_SORT_VALUES: set[MeasurementSort] = {
    "-created_at",
    "-error",
    "created_at",
    "error",
}


def check_measurement_sort(value: str) -> MeasurementSort:
    if value in MEASUREMENT_SORT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {MEASUREMENT_SORT_VALUES!r}")
