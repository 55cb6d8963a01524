from typing import Literal

ListMeasurementsSource = Literal["import", "probe", "recording"]

LIST_MEASUREMENTS_SOURCE_VALUES: set[ListMeasurementsSource] = {
    "import",
    "probe",
    "recording",
}


def check_list_measurements_source(value: str) -> ListMeasurementsSource:
    if value in LIST_MEASUREMENTS_SOURCE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LIST_MEASUREMENTS_SOURCE_VALUES!r}")
