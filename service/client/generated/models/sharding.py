from typing import Literal

Sharding = Literal["ddp", "deepspeed", "fsdp1", "fsdp2", "megatron"]

SHARDING_VALUES: set[Sharding] = {
    "ddp",
    "deepspeed",
    "fsdp1",
    "fsdp2",
    "megatron",
}


def check_sharding(value: str) -> Sharding:
    if value in SHARDING_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {SHARDING_VALUES!r}")
