"""Searches and batches: how many, plans, ceilings, many fits in one call.

A search looks at no clock, so its answer does not depend on what else the server does; it is given
up only where the client leaves. Hence searches are asked beside other questions, two at a time.
"""

import random
from collections.abc import Iterator
from urllib.parse import urlencode

from tests.answers.fits import chance_bodies
from tests.answers.questions import Json, Known, Question, get, post, rng_of, words
from tests.answers.workloads import serving, training

MODELS = words(
    "gpt2 llama-3.2-1b llama-3.1-8b llama-2-7b llama-2-70b llama-3.1-70b mixtral-8x7b "
    "qwen2.5-7b t5-small bert-base mamba-130m"
)
GPUS = ("A100-SXM4-80GB", "H100-SXM5-80GB", "H200", "L40S", "RTX-4090", "L4", "MI300X-192GB")
_TRAIN: Json = {"task": "train", "sequence_length": 4096}
_SERVE: Json = {"task": "serve", "num_sequences": 32, "prompt_tokens": 1024, "output_tokens": 256}
_QUERY = "/v1/how-many"
_BATCH, _PLANS, _CEILINGS = "/v1/fit/batch", "/v1/plans", "/v1/ceilings"


def batches(known: Known) -> Iterator[Question]:
    """Yield calls with many questions, as numbers and in full."""
    for number in range(10):
        items = chance_bodies(known, f"batch {number}", 24)
        detail: Json = {} if number % 3 == 0 else {"detail": ("numbers", "full")[number % 3 - 1]}
        yield post(_BATCH, _BATCH, {"items": items, **detail})
    same = {"model": "llama-3.1-8b", "gpu": "H200"}
    lengths = [
        {**same, "workload": {"task": "train", "sequence_length": 64 * n}} for n in range(1, 40)
    ]
    for detail_word in ("numbers", "full"):
        yield post(_BATCH, _BATCH, {"items": lengths, "detail": detail_word})
    wrong: list[object] = [{}, {"items": []}, {"items": [{}]}, {"items": [1, lengths[0], "x"]}, []]
    wrong += [{"items": lengths[:1], "detail": "some"}, {"items": lengths[:2], "x": 1}]
    for body in wrong:
        yield post(_BATCH, _BATCH, body)


def how_many() -> Iterator[Question]:
    """Yield questions in the query."""
    chance = rng_of("how many")
    for number in range(90):
        train = number % 3 != 0
        asked: Json = {"model": chance.choice(MODELS), "gpu": chance.choice(GPUS)}
        asked |= {"task": "train", "sequence_length": chance.choice([512, 2048, 4096])}
        if not train:
            asked |= _SERVE
            del asked["sequence_length"]
        asked |= chance.choice(_QUERY_WORDS[train])
        headers = {"accept": "text/plain"} if number % 6 == 0 else {}
        yield get(_QUERY, f"{_QUERY}?{urlencode(asked)}", headers=headers)
    base = "model=llama-2-7b&task=train&sequence_length=4096"
    for more in (
        "gpu=A100",
        "gpu=H100",
        "gpu=A100&sequence_length=1",
        "memory_bytes=80Gi",
        "gpu=none",
        "gpu=H200&x=1",
        "gpu=H200&max_gpus=0",
        "gpu=H200&micro_batch_size=x",
        "gpu=H200&optimizer=adamv",
        "gpu=H200&offload=cpu",
        "",
    ):
        yield get(_QUERY, f"{_QUERY}?{base}&{more}")
    yield get(_QUERY, _QUERY)
    yield get(_QUERY, f"{_QUERY}?{base}&gpu=H200", headers={"accept": "text/html"})


_QUERY_WORDS: dict[bool, list[Json]] = {
    True: [
        {},
        {"zero_stage": 3},
        {"method": "lora", "lora_rank": 16},
        {"method": "qlora", "precision": "bf16"},
        {"optimizer": "adamw_8bit", "activation_checkpointing": "full"},
        {"framework": "megatron", "precision": "megatron_bf16"},
        {"framework": "torchtitan"},
        {"max_gpus": 4},
        {"confidence": 0.5},
        {"micro_batch_size": 4, "tensor_parallel": 2},
    ],
    False: [
        {},
        {"engine": "vllm"},
        {"engine": "sglang", "gpu_memory_fraction": 0.8},
        {"engine": "vllm", "engine_version": "0.19.0", "quantization": "fp8"},
        {"engine": "llama_cpp", "quantization": "q4_k_m"},
        {"max_gpus": 2},
    ],
}


def plans(known: Known) -> Iterator[Question]:
    """Yield searches over kinds, numbers and layouts of GPUs."""
    chance = rng_of("plans")
    for number in range(84):
        yield post(_PLANS, _PLANS, _plan(chance, train=number % 3 != 0, pareto=number % 7 == 0))
    base: Json = {"model": "llama-3.1-8b", "gpus": ["H200"], "workload": _TRAIN}
    wrong: list[Json] = [{}, {**base, "gpus": []}, {**base, "cluster": "none"}, {**base, "x": 1}]
    wrong += [{**base, "objective": "best"}, {**base, "constraints": {"max_gpu": 1}}]
    wrong += [
        {**base, "gpus": ["H200", "H200"]},
        {**base, "gpus": ["A100"]},
        {**base, "model": "x"},
    ]
    wrong += [{**base, "constraints": {"frameworks": ["jax"]}}, {**base, "prices": {"x": 1}}]
    wrong += [{**base, "layout": {"tensor_parallel": 7}}, {**base, "prices": {"H200": -1}}]
    wrong += [{"model": "gpt2", "cluster": "none", "workload": _TRAIN}]
    wrong += [{**base, "gpus": list(known.gpus[::9]), "constraints": {"max_gpus": 8}}]
    for body in wrong:
        yield post(_PLANS, _PLANS, body)


def _plan(chance: random.Random, *, train: bool, pareto: bool) -> Json:
    gpus = chance.sample(GPUS, chance.choice([1, 1, 2, 3]))
    body: Json = {"model": chance.choice(MODELS), "gpus": gpus}
    body["workload"] = (
        _TRAIN | chance.choice(_TRAINED) if train else _SERVE | chance.choice(_SERVED)
    )
    body["objective"] = chance.choice(["fewest_gpus", "cheapest", "fastest"])
    if chance.random() < 0.6:
        body["constraints"] = chance.choice(_BOUNDS[train])
    if chance.random() < 0.1:
        body["prices"] = {gpus[0]: 1.25}
    if chance.random() < 0.1:
        body["confidence"] = None
    return body | ({"pareto": True} if pareto else {})


_TRAINED: list[Json] = [
    {},
    {"method": "lora", "precision": "bf16"},
    {"method": "qlora"},
    {"optimizer": "adamw_8bit"},
    {"activation_checkpointing": "full", "micro_batch_size": 2},
    {"framework": "megatron"},
    {"framework": "torchtitan"},
    {"sequence_length": 512, "loss": "fused_linear"},
]
_SERVED: list[Json] = [
    {},
    {"engine": "vllm"},
    {"engine": "sglang"},
    {"engine": "tensorrt_llm"},
    {"engine": "vllm", "quantization": "fp8"},
    {"engine": "llama_cpp", "quantization": "q4_0"},
]
_BOUNDS: dict[bool, list[Json]] = {
    True: [
        {"max_gpus": 8},
        {"max_nodes": 2, "gpus_per_node": 8},
        {"global_batch_size": 64},
        {"frameworks": ["deepspeed"]},
        {"frameworks": ["fsdp2", "megatron"]},
        {"allow": ["offload", "quantization"]},
        {"max_cost_per_hour": 20.0},
        {"max_step_time_s": 5.0},
        {"min_tokens_per_second": 20000.0},
    ],
    False: [
        {"max_gpus": 4},
        {"allow": ["quantization"]},
        {"max_prefill_time_s": 2.0},
        {"max_time_per_output_token_s": 0.03},
        {"min_num_sequences": 16},
        {"max_cost_per_hour": 3.0},
    ],
}
_MAXIMA = {
    True: [
        "micro_batch_size",
        "sequence_length",
        "lora_rank",
        "num_parameters",
        "global_batch_size",
    ],
    False: ["num_sequences", "max_model_len", "num_parameters"],
}


def ceilings() -> Iterator[Question]:
    """Yield how large something may be."""
    chance = rng_of("ceilings")
    for number in range(90):
        train = number % 3 != 0
        workload, layout = (training if train else serving)(chance)
        chosen = chance.choice(_MAXIMA[train])
        if chosen in workload:
            del workload[chosen]
        if chosen == "lora_rank":
            workload |= {"method": "lora"}
            workload.pop("lora", None)
        body: Json = {"gpu": chance.choice(GPUS), "workload": workload, "maximize": chosen}
        if chosen != "num_parameters":
            body["model"] = chance.choice(MODELS)
        if train and chance.random() < 0.3:
            layout = {"data_parallel": 8, "zero_stage": 3, "sharding": "fsdp2"}
        yield post(_CEILINGS, _CEILINGS, body | ({"layout": layout} if layout else {}))
    base: Json = {"model": "llama-3.1-8b", "gpu": "L4", "workload": _TRAIN}
    for more in (
        {},
        {"maximize": "depth"},
        {"maximize": "sequence_length"},
        {"maximize": "num_sequences"},
        {"maximize": "micro_batch_size", "gpu": "A100"},
        {"maximize": "micro_batch_size", "confidence": 2},
        {"maximize": "micro_batch_size", "num_gpus": 4},
    ):
        yield post(_CEILINGS, _CEILINGS, {**base, **more})
