from typing import Literal

ListMeasurementsTask = Literal["serve", "train"]

LIST_MEASUREMENTS_TASK_VALUES: set[ListMeasurementsTask] = {
    "serve",
    "train",
}


def check_list_measurements_task(value: str) -> ListMeasurementsTask:
    if value in LIST_MEASUREMENTS_TASK_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LIST_MEASUREMENTS_TASK_VALUES!r}")
