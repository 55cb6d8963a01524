from typing import Literal

FitPart = Literal["components", "instants", "remedies", "replay", "rules_of_thumb", "throughput"]

FIT_PART_VALUES: set[FitPart] = {
    "components",
    "instants",
    "remedies",
    "replay",
    "rules_of_thumb",
    "throughput",
}


def check_fit_part(value: str) -> FitPart:
    if value in FIT_PART_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {FIT_PART_VALUES!r}")
