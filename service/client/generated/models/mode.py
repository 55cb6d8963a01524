from typing import Literal

Mode = Literal["change", "refuse", "warn"]

MODE_VALUES: set[Mode] = {
    "change",
    "refuse",
    "warn",
}


def check_mode(value: str) -> Mode:
    if value in MODE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {MODE_VALUES!r}")
