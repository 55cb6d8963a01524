"""Questions of every kind, no two alike, as a year's users ask them together."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from service.catalog.models import list_model_names

GPUS = ("A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM5-141GB", "L40S")
SEARCHED = ("llama-3.1-8b", "mistral-7b-v0.1", "qwen2.5-7b", "gemma-2-9b", "llama-2-13b")
BATCH = 20
KINDS = ("serve",) * 45 + ("train",) * 25 + ("explained",) * 21 + ("batch",) * 4 + ("remedies",) * 2
SEARCHES = ("plans", "ceilings", "how-many")


def iter_mixed() -> Iterator[tuple[str, bytes]]:
    """Yield paths and bodies without end: of a hundred three are searches, four are batches."""
    names = sorted(list_model_names())
    for number in count():
        turn, place = divmod(number, len(KINDS) + len(SEARCHES))
        if place >= len(KINDS):
            kind = SEARCHES[place - len(KINDS)]
            yield f"/v1/{kind}", json.dumps(make_search(kind, turn)).encode()
            continue
        kind, model = KINDS[place], names[(turn + place * 7) % len(names)]
        if kind == "batch":
            items = [make_fit("serve", model, BATCH * number + each) for each in range(BATCH)]
            yield "/v1/fit/batch", json.dumps({"items": items}).encode()
        else:
            yield "/v1/fit", json.dumps(make_fit(kind, model, number)).encode()


def make_fit(kind: str, model: str, number: int) -> dict[str, Any]:
    """Return the question of a number about one model."""
    gpu, least = GPUS[number % len(GPUS)], {"include": [], "remedies": False}
    if kind == "serve":
        load = {"num_sequences": 1 + number % 256, "prompt_tokens": 64 + number // 256}
        workload: dict[str, Any] = {"task": "serve", "engine": "vllm", **load}
        return {"model": model, "gpu": gpu, "workload": workload, **least}
    step = {"sequence_length": 16 + number // 16, "micro_batch_size": 1 + number % 16}
    workload = {"task": "train", "method": "full", **step}
    layout = {"data_parallel": 8, "zero_stage": number % 4, "sharding": "deepspeed"}
    question = {"model": model, "gpu": gpu, "workload": workload, "layout": layout}
    if kind == "train":
        return question | least
    if kind == "explained":
        return question | {"remedies": False}
    workload["method"] = "lora"
    return {"model": SEARCHED[number % len(SEARCHED)], "gpu": "L4", "workload": workload}


def make_search(kind: str, number: int) -> dict[str, Any]:
    """Return a question of a number that is searched."""
    length = 128 + number // len(SEARCHED)
    question: dict[str, Any] = {
        "model": SEARCHED[number % len(SEARCHED)],
        "workload": {"task": "train", "method": "full", "sequence_length": length},
    }
    if kind == "plans":
        return question | {"gpus": list(GPUS[:2]), "constraints": {"max_gpus": 16}}
    if kind == "how-many":
        return question | {"gpu": GPUS[0], "constraints": {"max_gpus": 16}}
    return question | {"gpu": GPUS[1], "maximize": "micro_batch_size", "num_gpus": 8}
