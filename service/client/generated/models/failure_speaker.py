from typing import Literal

FailureSpeaker = Literal[
    "cuda",
    "kernel",
    "kubernetes",
    "launcher",
    "llama_cpp",
    "lmdeploy",
    "nccl",
    "ollama",
    "paddle",
    "python",
    "ray",
    "sglang",
    "slurm",
    "snapshot",
    "tensorrt_llm",
    "tgi",
    "torch",
    "vllm",
    "xla",
]

FAILURE_SPEAKER_VALUES: set[FailureSpeaker] = {
    "cuda",
    "kernel",
    "kubernetes",
    "launcher",
    "llama_cpp",
    "lmdeploy",
    "nccl",
    "ollama",
    "paddle",
    "python",
    "ray",
    "sglang",
    "slurm",
    "snapshot",
    "tensorrt_llm",
    "tgi",
    "torch",
    "vllm",
    "xla",
}


def check_failure_speaker(value: str) -> FailureSpeaker:
    if value in FAILURE_SPEAKER_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {FAILURE_SPEAKER_VALUES!r}")
