from typing import Literal

Action = Literal["allow", "change", "refuse", "warn"]

ACTION_VALUES: set[Action] = {
    "allow",
    "change",
    "refuse",
    "warn",
}


def check_action(value: str) -> Action:
    if value in ACTION_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ACTION_VALUES!r}")
