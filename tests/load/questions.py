"""Questions of the load test: a mix of models, methods and sizes.

Most of them are repeated and some of them are new.
"""

import json
import random
from collections.abc import Iterator
from itertools import product
from typing import Any

SHARE_SERVED = 0.25
SHARE_NEW = 0.004
"""Share of training questions with new sizes: ninety in a minute of 500 a second.

A scheduler asks about the same classes of jobs again and again, and people about sizes that are
powers of two. A first answer replays the allocator and takes a hundred times as long as the next
one: where every hundredth question is new, p99 is theirs.
"""

Question = dict[str, Any]

_TRAINED = (
    "llama-2-7b",
    "llama-3.1-8b",
    "mistral-7b-v0.1",
    "qwen2.5-7b",
    "gpt2",
    "bert-base",
    "gemma-2-9b",
    "mixtral-8x7b",
)
_SERVED = ("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-7b", "mistral-7b-v0.1")
_GPUS = ("A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM5-141GB")
_LENGTHS = (256, 512)
_BATCHES = (1, 4)
_FULL: Question = {
    "task": "train",
    "method": "full",
    "precision": "bf16_mixed",
    "activation_checkpointing": "full",
}
_LORA: Question = {
    "task": "train",
    "method": "lora",
    "lora": {"rank": 16},
    "activation_checkpointing": "full",
}
_SHARDED = {"data_parallel": 16, "zero_stage": 3, "sharding": "fsdp2"}
_SPLIT = {"tensor_parallel": 4}


def build_repeated_bodies() -> list[bytes]:
    """Build the training questions that are asked repeatedly."""
    grid = product(_TRAINED, _GPUS, (_FULL, _LORA), _LENGTHS, _BATCHES)
    return [
        _build_training(model, gpu, method, sequence_length=length, micro_batch_size=batch)
        for model, gpu, method, length, batch in grid
    ]


def iter_request_bodies(seed: int) -> Iterator[bytes]:
    """Yield bodies of ``POST /v1/fit`` without end.

    The same seed yields the same.
    """
    # A mix of questions is no secret.
    chance = random.Random(seed)  # noqa: S311
    repeated = build_repeated_bodies()
    while True:
        if chance.random() < SHARE_SERVED:
            yield _build_serving(chance)
        else:
            yield _build_new(chance) if chance.random() < SHARE_NEW else chance.choice(repeated)


def _build_new(chance: random.Random) -> bytes:
    model, gpu, method = (
        chance.choice(_TRAINED),
        chance.choice(_GPUS),
        chance.choice((_FULL, _LORA)),
    )
    return _build_training(
        model,
        gpu,
        method,
        sequence_length=chance.randint(64, 511),
        micro_batch_size=chance.randint(1, 8),
    )


def _build_training(model: str, gpu: str, method: Question, **sizes: int) -> bytes:
    return _encode(
        {"model": model, "gpu": gpu, "workload": {**method, **sizes}, "layout": _SHARDED}
    )


def _build_serving(chance: random.Random) -> bytes:
    workload = {
        "task": "serve",
        "engine": "vllm",
        "num_sequences": chance.randint(1, 64),
        "output_tokens": 256,
    }
    workload["prompt_tokens"] = 64 * chance.randint(1, 32)
    return _encode(
        {
            "model": chance.choice(_SERVED),
            "gpu": chance.choice(_GPUS),
            "workload": workload,
            "layout": _SPLIT,
        },
    )


def _encode(question: Question) -> bytes:
    return json.dumps(question).encode()
