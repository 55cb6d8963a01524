from typing import Literal

Maximized = Literal[
    "global_batch_size",
    "lora_rank",
    "max_model_len",
    "micro_batch_size",
    "num_images",
    "num_parameters",
    "num_sequences",
    "sequence_length",
]

MAXIMIZED_VALUES: set[Maximized] = {
    "global_batch_size",
    "lora_rank",
    "max_model_len",
    "micro_batch_size",
    "num_images",
    "num_parameters",
    "num_sequences",
    "sequence_length",
}


def check_maximized(value: str) -> Maximized:
    if value in MAXIMIZED_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {MAXIMIZED_VALUES!r}")
