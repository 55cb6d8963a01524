from typing import Literal

TrainCeilingTask = Literal["train"]

TRAIN_CEILING_TASK_VALUES: set[TrainCeilingTask] = {
    "train",
}


def check_train_ceiling_task(value: str) -> TrainCeilingTask:
    if value in TRAIN_CEILING_TASK_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {TRAIN_CEILING_TASK_VALUES!r}")
