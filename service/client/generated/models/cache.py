from typing import Literal

Cache = Literal["dynamic", "paged", "static"]

CACHE_VALUES: set[Cache] = {
    "dynamic",
    "paged",
    "static",
}


def check_cache(value: str) -> Cache:
    if value in CACHE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CACHE_VALUES!r}")
