from typing import Literal

Sampling = Literal["greedy", "sample"]

SAMPLING_VALUES: set[Sampling] = {
    "greedy",
    "sample",
}


def check_sampling(value: str) -> Sampling:
    if value in SAMPLING_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {SAMPLING_VALUES!r}")
