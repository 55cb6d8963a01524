from typing import Literal

Maximized = Literal["lora_rank", "micro_batch_size", "num_parameters", "num_sequences", "sequence_length"]

MAXIMIZED_VALUES: set[Maximized] = {
    "lora_rank",
    "micro_batch_size",
    "num_parameters",
    "num_sequences",
    "sequence_length",
}


def check_maximized(value: str) -> Maximized:
    if value in MAXIMIZED_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {MAXIMIZED_VALUES!r}")
