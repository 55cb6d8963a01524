from typing import Literal

ServeCeilingTask = Literal["serve"]

SERVE_CEILING_TASK_VALUES: set[ServeCeilingTask] = {
    "serve",
}


def check_serve_ceiling_task(value: str) -> ServeCeilingTask:
    if value in SERVE_CEILING_TASK_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {SERVE_CEILING_TASK_VALUES!r}")
