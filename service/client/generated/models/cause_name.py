from typing import Literal

CauseName = Literal[
    "batch_too_large",
    "cache_share_too_large",
    "cache_share_too_small",
    "fragmentation",
    "host_memory",
    "impossible_size",
    "larger_than_gpu",
    "leak",
    "memory_limit",
    "model_too_large",
    "not_memory",
    "other_process",
    "outside_allocator",
    "refused_though_free",
    "sequence_too_long",
    "shared_memory",
    "smaller_gpu",
    "too_large",
]

CAUSE_NAME_VALUES: set[CauseName] = {
    "batch_too_large",
    "cache_share_too_large",
    "cache_share_too_small",
    "fragmentation",
    "host_memory",
    "impossible_size",
    "larger_than_gpu",
    "leak",
    "memory_limit",
    "model_too_large",
    "not_memory",
    "other_process",
    "outside_allocator",
    "refused_though_free",
    "sequence_too_long",
    "shared_memory",
    "smaller_gpu",
    "too_large",
}


def check_cause_name(value: str) -> CauseName:
    if value in CAUSE_NAME_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CAUSE_NAME_VALUES!r}")
