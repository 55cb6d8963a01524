from typing import Literal

AskHowManyAs = Literal["count", "json"]

ASK_HOW_MANY_AS_VALUES: set[AskHowManyAs] = {
    "count",
    "json",
}


def check_ask_how_many_as(value: str) -> AskHowManyAs:
    if value in ASK_HOW_MANY_AS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ASK_HOW_MANY_AS_VALUES!r}")
