from typing import Literal

FailureQuantity = Literal[
    "allocated_bytes",
    "budget_bytes",
    "free_bytes",
    "gpu_memory_fraction",
    "host_limit_bytes",
    "host_resident_bytes",
    "kv_cache_needed_bytes",
    "kv_pool_bytes",
    "kv_pool_tokens",
    "largest_free_block_bytes",
    "limit_bytes",
    "longest_model_len",
    "max_model_len",
    "num_sequences",
    "num_tokens",
    "other_process_bytes",
    "private_pool_bytes",
    "process_bytes",
    "requested_bytes",
    "reserved_bytes",
    "total_bytes",
    "unallocated_bytes",
    "weight_bytes",
]

FAILURE_QUANTITY_VALUES: set[FailureQuantity] = {
    "allocated_bytes",
    "budget_bytes",
    "free_bytes",
    "gpu_memory_fraction",
    "host_limit_bytes",
    "host_resident_bytes",
    "kv_cache_needed_bytes",
    "kv_pool_bytes",
    "kv_pool_tokens",
    "largest_free_block_bytes",
    "limit_bytes",
    "longest_model_len",
    "max_model_len",
    "num_sequences",
    "num_tokens",
    "other_process_bytes",
    "private_pool_bytes",
    "process_bytes",
    "requested_bytes",
    "reserved_bytes",
    "total_bytes",
    "unallocated_bytes",
    "weight_bytes",
}


def check_failure_quantity(value: str) -> FailureQuantity:
    if value in FAILURE_QUANTITY_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {FAILURE_QUANTITY_VALUES!r}")
