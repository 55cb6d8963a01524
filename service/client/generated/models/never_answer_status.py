from typing import Literal

NeverAnswerStatus = Literal["never"]

NEVER_ANSWER_STATUS_VALUES: set[NeverAnswerStatus] = {
    "never",
}


def check_never_answer_status(value: str) -> NeverAnswerStatus:
    if value in NEVER_ANSWER_STATUS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {NEVER_ANSWER_STATUS_VALUES!r}")
