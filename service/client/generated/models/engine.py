from typing import Literal

Engine = Literal["llama_cpp", "sglang", "tensorrt_llm", "transformers", "vllm"]

ENGINE_VALUES: set[Engine] = {
    "llama_cpp",
    "sglang",
    "tensorrt_llm",
    "transformers",
    "vllm",
}


def check_engine(value: str) -> Engine:
    if value in ENGINE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ENGINE_VALUES!r}")
