"""What fits and repeated searches sustain, next to raw ASGI."""

import http.client
import itertools
import json
import random
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from tests.bench.load import Load, encode_request, run_load
from tests.bench.servers import run_floor, run_service

QUESTION: dict[str, Any] = {
    "model": "llama-2-7b",
    "workload": {"task": "train", "sequence_length": 4096, "activation_checkpointing": "full"},
    "gpu": "A100-SXM4-80GB",
    "layout": {"data_parallel": 8, "zero_stage": 3},
}
PLAN: dict[str, Any] = {
    "model": "llama-2-70b",
    "workload": {"task": "train", "sequence_length": 4096},
    "gpus": ["A100-SXM4-80GB", "H100-SXM5-80GB"],
}
WORDS = "/v1/how-many?model=llama-2-70b&gpu=A100-SXM4-80GB&task=train&sequence_length=4096"
GPUS = ("A100-SXM4-80GB", "H100-SXM", "H200", "B200", "MI300X")
LEVELS = tuple(round(0.5 + step / 100, 2) for step in range(46))
NUM_MEMORIES = 192
SEQUENCES = range(1, 129)
"""Whose cache a pool of an H200 holds at these lengths."""
_MEMORY = 80 * 2**30
_MEMORY_STEP = 2**29
_ROUNDS = 3
_SECONDS = 3.0
_FLOOR = "raw ASGI, constant body"


def iter_configurations() -> Iterator[dict[str, Any]]:
    """Yield what is recorded and replayed once: it fits, and what follows asks about it."""
    lengths = range(512, 4097, 512)
    for batch, length, ranks in itertools.product((1, 2, 3, 4), lengths, (8, 16, 32, 64)):
        workload = {"micro_batch_size": batch, "sequence_length": length}
        yield {
            "model": "llama-2-7b",
            "workload": {"task": "train", "activation_checkpointing": "full", **workload},
            "layout": {"data_parallel": ranks, "zero_stage": 3},
        }
    for model, length in itertools.product(("mistral-7b-v0.1", "llama-2-7b"), lengths):
        lora = {"task": "train", "method": "lora", "activation_checkpointing": "full"}
        yield {"model": model, "workload": {**lora, "sequence_length": length}}
    for sequences, prompt in itertools.product((1, 2, 4, 8), lengths[:4]):
        serving = {"task": "serve", "num_sequences": sequences, "prompt_tokens": prompt}
        yield {"model": "llama-2-7b", "workload": serving}


def iter_levels() -> Iterator[dict[str, Any]]:
    """Yield questions that differ from others in the level alone, in an order that is no grid's.

    Each asks about a recorded configuration, on one of some GPUs, at one of some levels.
    """
    grid = list(itertools.product(iter_configurations(), GPUS, LEVELS))
    random.Random(0).shuffle(grid)  # noqa: S311 - an order, no secret
    for configuration, gpu, level in grid:
        yield {**configuration, "gpu": gpu, "confidence": level}


def iter_memories() -> Iterator[dict[str, Any]]:
    """Yield questions about GPUs of memories that no other question names."""
    configurations = list(iter_configurations())
    random.Random(0).shuffle(configurations)  # noqa: S311 - an order, no secret
    for step, configuration in itertools.product(range(NUM_MEMORIES), configurations):
        yield {**configuration, "gpu": {"memory_bytes": _MEMORY + step * _MEMORY_STEP}}


def iter_loads() -> Iterator[dict[str, Any]]:
    """Yield questions about one engine that differ in its load, in an order that is no grid's."""
    grid = list(itertools.product(SEQUENCES, range(16, 513, 4)))
    random.Random(0).shuffle(grid)  # noqa: S311 - an order, no secret
    for sequences, prompt in grid:
        load = {"num_sequences": sequences, "prompt_tokens": prompt, "output_tokens": 64}
        workload = {"task": "serve", "engine": "vllm", **load}
        yield {"model": "llama-3.1-8b", "workload": workload, "gpu": "H200"}


def measure_requests() -> Table:
    """Measure what the HTTP API sustains, next to the floor.

    All are interleaved in one run.
    """
    rows: dict[str, list[Load]] = {_FLOOR: []}
    with (
        tempfile.TemporaryDirectory(prefix="headroom-bench-") as data_dir,
        run_service(Path(data_dir)) as port,
        run_floor() as base,
    ):
        repeated = _encode(QUESTION)
        etag = _warm_up(port)
        asked = {
            "POST /v1/fit, GPUs of other memory": (_draw(iter_memories(), {}), 200),
            "POST /v1/fit, GPUs of other memory, include: []": (
                _draw(iter_memories(), {"include": []}),
                200,
            ),
            "POST /v1/fit, other loads of vLLM": (_draw(iter_loads(), {}), 200),
            "POST /v1/fit, other loads of vLLM, include: []": (
                _draw(iter_loads(), {"include": []}),
                200,
            ),
            "POST /v1/fit, other levels of confidence": (_draw(iter_levels(), {}), 200),
            "POST /v1/fit, other levels of confidence, include: []": (
                _draw(iter_levels(), {"include": []}),
                200,
            ),
            "POST /v1/fit, one question repeated": (itertools.repeat(repeated), 200),
            "POST /v1/fit, one question repeated, If-None-Match": (
                itertools.repeat(_encode(QUESTION, {"If-None-Match": etag})),
                304,
            ),
            "POST /v1/plans, one question repeated": (
                itertools.repeat(encode_request("POST", "/v1/plans", json.dumps(PLAN).encode())),
                200,
            ),
            "GET /v1/how-many, one question repeated": (
                itertools.repeat(encode_request("GET", WORDS)),
                200,
            ),
        }
        for _ in range(_ROUNDS):
            floor = run_load("127.0.0.1", base, repeated, seconds=_SECONDS)
            rows[_FLOOR].append(floor)
            for name, (requests, status) in asked.items():
                load = run_load("127.0.0.1", port, requests, seconds=_SECONDS, status=status)
                rows.setdefault(name, []).append(load)
    return _tabulate(rows)


def _tabulate(rows: Mapping[str, Iterable[Load]]) -> Table:
    table = Table(
        "endpoint",
        "requests/s",
        "of raw ASGI",
        "p50 ms",
        "p99 ms",
        "statuses",
        title="HTTP, 1 server process, 16 connections",
    )
    best = {
        name: max(loads, key=lambda load: load.requests_per_second) for name, loads in rows.items()
    }
    floor = best[_FLOOR].requests_per_second
    for name, load in best.items():
        table.add_row(
            name,
            f"{load.requests_per_second:,.0f}",
            f"{load.requests_per_second / floor:.1%}",
            f"{load.p50_ms:.2f}",
            f"{load.p99_ms:.2f}",
            str(load.statuses),
        )
    return table


def _draw(questions: Iterable[dict[str, Any]], said: Mapping[str, object]) -> Iterator[bytes]:
    """Return encoded questions, made before the run, without an end.

    Who comes to the end has asked more than a server remembers, and begins anew.
    """
    return itertools.cycle([_encode({**one, **said}) for one in questions])


def _encode(question: Mapping[str, object], headers: Mapping[str, str] | None = None) -> bytes:
    return encode_request("POST", "/v1/fit", json.dumps(question).encode(), headers)


def _warm_up(port: int) -> str:
    """Ask about every configuration once; return the tag of the question that is repeated."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    for configuration, gpu in itertools.product(iter_configurations(), GPUS):
        _ask(connection, {**configuration, "gpu": gpu})
    return _ask(connection, QUESTION)


def _ask(connection: http.client.HTTPConnection, question: Mapping[str, object]) -> str:
    """Return the tag of the answer to a question that fits."""
    body = json.dumps(question).encode()
    connection.request("POST", "/v1/fit", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    verdict = json.load(answer).get("verdict")
    if verdict != "fits":
        # What does not fit is asked about remedies as well, which is another figure.
        message = f"{question} is answered with {verdict or answer.status}"
        raise RuntimeError(message)
    return answer.headers["etag"]
