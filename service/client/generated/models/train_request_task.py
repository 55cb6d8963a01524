from typing import Literal

TrainRequestTask = Literal["train"]

TRAIN_REQUEST_TASK_VALUES: set[TrainRequestTask] = {
    "train",
}


def check_train_request_task(value: str) -> TrainRequestTask:
    if value in TRAIN_REQUEST_TASK_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {TRAIN_REQUEST_TASK_VALUES!r}")
