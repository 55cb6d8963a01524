"""Searches that end without a number, within limits of time, or in remedies.

They take the most of a server, so that whatever makes them faster is judged by their answers:
``--only search``, and ``--without searched`` where fewer estimates are the aim.
"""

import random
from collections.abc import Iterator

from tests.answers.fits import PATH as FIT
from tests.answers.questions import Json, Question, post, rng_of, words

GROUP = "search"
_HOW_MANY, _PLANS = "/v1/how-many", "/v1/plans"
_MODELS = words(
    "llama-3.1-405b llama-3.1-70b llama-3.1-8b llama-2-13b qwen2.5-32b mixtral-8x7b qwen3-30b-a3b "
    "gpt-oss-20b gemma-2-9b mistral-7b gpt2-xl phi-3-mini-4k llama-3.2-3b deepseek-v3"
)
_GPUS = words(
    "T4 V100-SXM2-16GB L4 RTX-3090 RTX-A4500 A100-SXM4-40GB A100-SXM4-80GB H100-SXM5-80GB"
)
_TOKENS = 1_000_000_000
_NUM_HOW_MANY, _NUM_PLANS, _NUM_FITS = 150, 60, 90


def long_searches() -> Iterator[Question]:
    """Yield every one of them."""
    for path, body in _by_hand():
        yield post(GROUP, path, body)
    chance = rng_of("long searches")
    for _ in range(_NUM_HOW_MANY):
        body = {"model": chance.choice(_MODELS), "gpu": chance.choice(_GPUS)}
        yield post(GROUP, _HOW_MANY, body | _search(chance))
    for _ in range(_NUM_PLANS):
        gpus = chance.sample(_GPUS, chance.choice([1, 2]))
        body = {"model": chance.choice(_MODELS), "gpus": gpus} | _search(chance)
        body["objective"] = chance.choice(["fewest_gpus", "cheapest", "fastest"])
        yield post(GROUP, _PLANS, body)
    for _ in range(_NUM_FITS):
        body = {"model": chance.choice(_MODELS), "gpu": chance.choice(_GPUS)}
        workload, _ = _asked(chance)
        layout = {"data_parallel": chance.choice([1, 1, 2, 8])} | (
            {"sharding": "fsdp2", "zero_stage": 3} if workload["task"] == "train" else {}
        )
        yield post(GROUP, FIT, body | {"workload": workload, "layout": layout})


def _by_hand() -> Iterator[tuple[str, Json]]:
    train: Json = {"task": "train", "sequence_length": 4096}
    run = {**train, "num_tokens": _TOKENS}
    for model, gpu in (
        ("llama-3.1-405b", "T4"),
        ("llama-3.1-405b", "RTX-A4500"),
        ("llama-3.1-405b", "A100-SXM4-80GB"),
        ("llama-3.1-70b", "T4"),
        ("deepseek-v3", "H100-SXM5-80GB"),
        ("mixtral-8x7b", "L4"),
    ):
        yield _HOW_MANY, {"model": model, "gpu": gpu, "workload": train}
        yield _PLANS, {"model": model, "gpus": [gpu], "workload": train}
    bounds: list[Json] = [
        {"max_hours": 1.0},
        {"max_hours": 100.0},
        {"min_tokens_per_second": 1e9},
        {"min_tokens_per_second": 1e5},
        {"max_step_time_s": 0.01},
        {"max_step_time_s": 2.0, "max_hours": 40.0},
    ]
    for bound in bounds:
        for model, gpu in (("llama-3.1-8b", "T4"), ("llama-3.1-8b", "L4"), ("gpt2-xl", "T4")):
            body = {"model": model, "gpus": [gpu], "workload": run, "constraints": bound}
            yield _PLANS, body
    for model in ("mixtral-8x7b", "qwen3-30b-a3b"):
        for objective in ("fewest_gpus", "cheapest", "fastest"):
            gpus = ["H100-SXM5-80GB", "A100-SXM4-80GB"]
            body = {"model": model, "gpus": gpus, "workload": train, "objective": objective}
            yield _PLANS, body


def _search(chance: random.Random) -> Json:
    workload, bounds = _asked(chance)
    body: Json = {"workload": workload}
    chosen: Json = {}
    for _ in range(chance.choice([0, 1, 1, 2])):
        chosen |= chance.choice(bounds)
    return body | ({"constraints": chosen} if chosen else {})


def _asked(chance: random.Random) -> tuple[Json, list[Json]]:
    """Return a workload, and bounds that a search of it may have."""
    if chance.random() < _SERVED:
        served = {"task": "serve", "num_sequences": chance.choice([1, 32, 256])}
        served |= {"prompt_tokens": 1024, "output_tokens": 256}
        return served | chance.choice(_SERVING), _SERVING_BOUNDS
    length = chance.choice([512, 2048, 4096, 16384])
    workload = {"task": "train", "sequence_length": length, "num_tokens": _TOKENS}
    return workload | chance.choice(_TRAINING), _TRAINING_BOUNDS


_SERVED = 0.2
_SERVING: list[Json] = [{}, {"engine": "vllm"}, {"engine": "sglang"}, {"engine": "llama_cpp"}]
_TRAINING: list[Json] = [
    {},
    {},
    {"method": "lora"},
    {"method": "qlora"},
    {"framework": "megatron"},
    {"framework": "torchtitan"},
    {"optimizer": "adamw_8bit"},
    {"precision": "fp16_mixed"},
    {"activation_checkpointing": "full", "micro_batch_size": 1},
    {"attention": "eager"},
]
_SERVING_BOUNDS: list[Json] = [
    {"max_gpus": 2},
    {"max_time_per_output_token_s": 0.01},
    {"min_num_sequences": 1024},
    {"min_tokens_per_second": 1e6},
    {"allow": ["quantization"]},
]
_TRAINING_BOUNDS: list[Json] = [
    {"max_gpus": 4},
    {"max_gpus": 64},
    {"max_nodes": 3, "gpus_per_node": 4},
    {"max_hours": 2.0},
    {"max_hours": 200.0},
    {"min_tokens_per_second": 3e4},
    {"min_tokens_per_second": 1e7},
    {"max_step_time_s": 0.2},
    {"max_step_time_s": 5.0},
    {"global_batch_size": 64},
    {"allow": ["offload"]},
    {"frameworks": ["transformers"]},
]
