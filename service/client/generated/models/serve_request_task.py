from typing import Literal

ServeRequestTask = Literal["serve"]

SERVE_REQUEST_TASK_VALUES: set[ServeRequestTask] = {
    "serve",
}


def check_serve_request_task(value: str) -> ServeRequestTask:
    if value in SERVE_REQUEST_TASK_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {SERVE_REQUEST_TASK_VALUES!r}")
