from typing import Literal

CauseCertainty = Literal["certain", "likely", "possible"]

CAUSE_CERTAINTY_VALUES: set[CauseCertainty] = {
    "certain",
    "likely",
    "possible",
}


def check_cause_certainty(value: str) -> CauseCertainty:
    if value in CAUSE_CERTAINTY_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CAUSE_CERTAINTY_VALUES!r}")
