from typing import Literal

Engine = Literal["llama_cpp", "lmdeploy", "sglang", "tensorrt_llm", "tgi", "transformers", "vllm"]

ENGINE_VALUES: set[Engine] = {
    "llama_cpp",
    "lmdeploy",
    "sglang",
    "tensorrt_llm",
    "tgi",
    "transformers",
    "vllm",
}


def check_engine(value: str) -> Engine:
    if value in ENGINE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ENGINE_VALUES!r}")
