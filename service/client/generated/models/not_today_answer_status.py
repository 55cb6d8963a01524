from typing import Literal

NotTodayAnswerStatus = Literal["not_today"]

NOT_TODAY_ANSWER_STATUS_VALUES: set[NotTodayAnswerStatus] = {
    "not_today",
}


def check_not_today_answer_status(value: str) -> NotTodayAnswerStatus:
    if value in NOT_TODAY_ANSWER_STATUS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {NOT_TODAY_ANSWER_STATUS_VALUES!r}")
