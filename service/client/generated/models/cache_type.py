from typing import Literal

CacheType = Literal["iq4_nl", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"]

CACHE_TYPE_VALUES: set[CacheType] = {
    "iq4_nl",
    "q4_0",
    "q4_1",
    "q5_0",
    "q5_1",
    "q8_0",
}


def check_cache_type(value: str) -> CacheType:
    if value in CACHE_TYPE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CACHE_TYPE_VALUES!r}")
