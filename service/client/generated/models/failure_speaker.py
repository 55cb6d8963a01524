from typing import Literal

FailureSpeaker = Literal[
    "cuda",
    "kernel",
    "kubernetes",
    "launcher",
    "llama_cpp",
    "nccl",
    "python",
    "sglang",
    "slurm",
    "snapshot",
    "tgi",
    "torch",
    "vllm",
]

FAILURE_SPEAKER_VALUES: set[FailureSpeaker] = {
    "cuda",
    "kernel",
    "kubernetes",
    "launcher",
    "llama_cpp",
    "nccl",
    "python",
    "sglang",
    "slurm",
    "snapshot",
    "tgi",
    "torch",
    "vllm",
}


def check_failure_speaker(value: str) -> FailureSpeaker:
    if value in FAILURE_SPEAKER_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {FAILURE_SPEAKER_VALUES!r}")
