from typing import Literal

HowManyAs = Literal["count", "json"]

HOW_MANY_AS_VALUES: set[HowManyAs] = {
    "count",
    "json",
}


def check_how_many_as(value: str) -> HowManyAs:
    if value in HOW_MANY_AS_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {HOW_MANY_AS_VALUES!r}")
