from typing import Literal

Status = Literal["cancelled", "failed", "queued", "running", "succeeded"]

STATUS_VALUES: set[Status] = {
    "cancelled",
    "failed",
    "queued",
    "running",
    "succeeded",
}


def check_status(value: str) -> Status:
    if value in STATUS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {STATUS_VALUES!r}")
