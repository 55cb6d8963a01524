from typing import Literal

PlacedAnswerStatus = Literal["placed"]

PLACED_ANSWER_STATUS_VALUES: set[PlacedAnswerStatus] = {
    "placed",
}


def check_placed_answer_status(value: str) -> PlacedAnswerStatus:
    if value in PLACED_ANSWER_STATUS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {PLACED_ANSWER_STATUS_VALUES!r}")
