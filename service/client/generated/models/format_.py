from typing import Literal

Format = Literal["memory-stats", "node", "nvidia-smi", "prometheus", "sacct", "sglang", "snapshot", "trainer", "vllm"]

FORMAT_VALUES: set[Format] = {
    "memory-stats",
    "node",
    "nvidia-smi",
    "prometheus",
    "sacct",
    "sglang",
    "snapshot",
    "trainer",
    "vllm",
}


def check_format(value: str) -> Format:
    if value in FORMAT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {FORMAT_VALUES!r}")
