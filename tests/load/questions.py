"""What is asked under load: a mix of models, methods and sizes, most of them asked before and some of them new."""

import json
import random
from collections.abc import Iterator
from itertools import product
from typing import Any

SHARE_SERVED = 0.25
SHARE_NEW = 0.004
"""Of training questions: sizes that nobody asked about before, ninety in a minute of 500 a second.

A scheduler asks about the same classes of jobs again and again, and people about sizes that are powers of two. A first answer
replays the allocator and takes a hundred times as long as the next one: where every hundredth question is new, p99 is theirs.
"""

Question = dict[str, Any]

_TRAINED = ("llama-2-7b", "llama-3.1-8b", "mistral-7b-v0.1", "qwen2.5-7b", "gpt2", "bert-base", "gemma-2-9b", "mixtral-8x7b")
_SERVED = ("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-7b", "mistral-7b-v0.1")
_GPUS = ("A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM5-141GB")
_LENGTHS = (256, 512)
_BATCHES = (1, 4)
_FULL: Question = {"task": "train", "method": "full", "precision": "bf16_mixed", "activation_checkpointing": "full"}
_LORA: Question = {"task": "train", "method": "lora", "lora": {"rank": 16}, "activation_checkpointing": "full"}
_SHARDED = {"data_parallel": 16, "zero_stage": 3, "sharding": "fsdp2"}
_SPLIT = {"tensor_parallel": 4}


def asked_before() -> list[bytes]:
    """Return every question about training that is asked again and again."""
    grid = product(_TRAINED, _GPUS, (_FULL, _LORA), _LENGTHS, _BATCHES)
    return [_train(model, gpu, how, sequence_length=length, micro_batch_size=batch) for model, gpu, how, length, batch in grid]


def request_bodies(seed: int) -> Iterator[bytes]:
    """Yield bodies of ``POST /v1/fit`` without end; the same seed yields the same."""
    # A mix of questions is no secret.
    chance = random.Random(seed)  # noqa: S311
    before = asked_before()
    while True:
        if chance.random() < SHARE_SERVED:
            yield _serve(chance)
        else:
            yield _new(chance) if chance.random() < SHARE_NEW else chance.choice(before)


def _new(chance: random.Random) -> bytes:
    model, gpu, how = chance.choice(_TRAINED), chance.choice(_GPUS), chance.choice((_FULL, _LORA))
    return _train(model, gpu, how, sequence_length=chance.randint(64, 511), micro_batch_size=chance.randint(1, 8))


def _train(model: str, gpu: str, how: Question, **sizes: int) -> bytes:
    return _encoded({"model": model, "gpu": gpu, "workload": {**how, **sizes}, "layout": _SHARDED})


def _serve(chance: random.Random) -> bytes:
    workload = {"task": "serve", "engine": "vllm", "num_sequences": chance.randint(1, 64), "output_tokens": 256}
    workload["prompt_tokens"] = 64 * chance.randint(1, 32)
    return _encoded({"model": chance.choice(_SERVED), "gpu": chance.choice(_GPUS), "workload": workload, "layout": _SPLIT})


def _encoded(question: Question) -> bytes:
    return json.dumps(question).encode()
