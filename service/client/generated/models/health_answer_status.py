from typing import Literal

HealthAnswerStatus = Literal["ok"]

HEALTH_ANSWER_STATUS_VALUES: set[HealthAnswerStatus] = {
    "ok",
}


def check_health_answer_status(value: str) -> HealthAnswerStatus:
    if value in HEALTH_ANSWER_STATUS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {HEALTH_ANSWER_STATUS_VALUES!r}")
