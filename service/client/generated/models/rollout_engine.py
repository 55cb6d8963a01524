from typing import Literal

RolloutEngine = Literal["sglang", "transformers", "vllm"]

ROLLOUT_ENGINE_VALUES: set[RolloutEngine] = {
    "sglang",
    "transformers",
    "vllm",
}


def check_rollout_engine(value: str) -> RolloutEngine:
    if value in ROLLOUT_ENGINE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ROLLOUT_ENGINE_VALUES!r}")
