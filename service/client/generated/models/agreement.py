from typing import Literal

Agreement = Literal["above", "below", "inside"]

AGREEMENT_VALUES: set[Agreement] = {
    "above",
    "below",
    "inside",
}


def check_agreement(value: str) -> Agreement:
    if value in AGREEMENT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {AGREEMENT_VALUES!r}")
