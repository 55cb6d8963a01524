"""What POST /v1/fit sustains, distinct questions and repeated ones, next to raw ASGI."""

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
GPUS = ("A100-SXM4-80GB", "H100-SXM", "H200", "B200", "MI300X")
_ROUNDS = 3
_SECONDS = 3.0
_NUM_DISTINCT = 60_000
"""More than are asked in all rounds, so that none is asked twice."""
_FLOOR = "raw ASGI, constant body"


def iter_configurations() -> Iterator[dict[str, Any]]:
    """Yield what is recorded and replayed once: it fits, and what follows asks about it."""
    for batch, length, ranks in itertools.product((1, 2), (1024, 2048, 4096), (8, 16, 32, 64)):
        workload = {"micro_batch_size": batch, "sequence_length": length}
        yield {
            "model": "llama-2-7b",
            "workload": {"task": "train", "activation_checkpointing": "full", **workload},
            "layout": {"data_parallel": ranks, "zero_stage": 3},
        }
    for model, length in itertools.product(("mistral-7b-v0.1", "llama-2-7b"), (512, 1024, 2048)):
        lora = {"task": "train", "method": "lora", "activation_checkpointing": "full"}
        yield {"model": model, "workload": {**lora, "sequence_length": length}}
    for sequences, prompt in itertools.product((1, 4, 8), (512, 1024)):
        serving = {"task": "serve", "num_sequences": sequences, "prompt_tokens": prompt}
        yield {"model": "llama-2-7b", "workload": serving}


def iter_distinct_questions() -> Iterator[dict[str, Any]]:
    """Yield questions without an end of which no two are alike, in an order that is no grid's.

    Each asks about a recorded configuration, on one of several GPUs, at a level of its own.
    """
    chosen, configurations = random.Random(0), list(iter_configurations())  # noqa: S311 - an order, no secret
    for number in itertools.count():
        confidence = round(0.5 + number * 4e-6, 6)
        yield {
            **chosen.choice(configurations),
            "gpu": chosen.choice(GPUS),
            "confidence": confidence,
        }


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
            "POST /v1/fit, distinct questions": (_draw({}), 200),
            "POST /v1/fit, distinct questions, include: []": (_draw({"include": []}), 200),
            "POST /v1/fit, one question repeated": (itertools.repeat(repeated), 200),
            "POST /v1/fit, one question repeated, If-None-Match": (
                itertools.repeat(_encode(QUESTION, {"If-None-Match": etag})),
                304,
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


def _draw(said: Mapping[str, object]) -> Iterator[bytes]:
    """Return encoded questions, made before the run."""
    questions = itertools.islice(iter_distinct_questions(), _NUM_DISTINCT)
    return iter([_encode({**question, **said}) for question in questions])


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
