from typing import Literal

GenerateRequestTask = Literal["generate"]

GENERATE_REQUEST_TASK_VALUES: set[GenerateRequestTask] = {
    "generate",
}


def check_generate_request_task(value: str) -> GenerateRequestTask:
    if value in GENERATE_REQUEST_TASK_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {GENERATE_REQUEST_TASK_VALUES!r}")
