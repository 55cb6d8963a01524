from typing import Literal

Objective = Literal["cheapest", "fastest", "fewest_gpus"]

OBJECTIVE_VALUES: set[Objective] = {
    "cheapest",
    "fastest",
    "fewest_gpus",
}


def check_objective(value: str) -> Objective:
    if value in OBJECTIVE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {OBJECTIVE_VALUES!r}")
