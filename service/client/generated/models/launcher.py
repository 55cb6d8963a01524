from typing import Literal

Launcher = Literal[
    "accelerate",
    "axolotl",
    "deepspeed",
    "generate",
    "litgpt",
    "llama_cpp",
    "llamafactory",
    "lmdeploy",
    "megatron",
    "ms_swift",
    "nemo",
    "openrlhf",
    "sglang",
    "tensorrt_llm",
    "tgi",
    "torchtitan",
    "trainer",
    "trl_cpo",
    "trl_dpo",
    "trl_grpo",
    "trl_kto",
    "trl_orpo",
    "trl_reward",
    "trl_rloo",
    "trl_sft",
    "unsloth",
    "verl",
    "vllm",
]

LAUNCHER_VALUES: set[Launcher] = {
    "accelerate",
    "axolotl",
    "deepspeed",
    "generate",
    "litgpt",
    "llama_cpp",
    "llamafactory",
    "lmdeploy",
    "megatron",
    "ms_swift",
    "nemo",
    "openrlhf",
    "sglang",
    "tensorrt_llm",
    "tgi",
    "torchtitan",
    "trainer",
    "trl_cpo",
    "trl_dpo",
    "trl_grpo",
    "trl_kto",
    "trl_orpo",
    "trl_reward",
    "trl_rloo",
    "trl_sft",
    "unsloth",
    "verl",
    "vllm",
}


def check_launcher(value: str) -> Launcher:
    if value in LAUNCHER_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LAUNCHER_VALUES!r}")
