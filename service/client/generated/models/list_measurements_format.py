from typing import Literal

ListMeasurementsFormat = Literal["csv", "json", "rows"]

LIST_MEASUREMENTS_FORMAT_VALUES: set[ListMeasurementsFormat] = {
    "csv",
    "json",
    "rows",
}


def check_list_measurements_format(value: str) -> ListMeasurementsFormat:
    if value in LIST_MEASUREMENTS_FORMAT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LIST_MEASUREMENTS_FORMAT_VALUES!r}")
