"""Benchmark of POST /v1/fit/batch.

It measures what batches sustain, and how long a single fit waits while they run.
"""

import http.client
import itertools
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from tests.bench.load import Load, encode_request, run_load
from tests.bench.servers import run_service

NUM_ITEMS = 10_000
_BATCHES = 5
_SINGLES = 4
"""Connections that ask single fits, one after another, while batches run."""
_NUM_SINGLES = 40_000
_SECONDS = 6.0


def build_question(
    micro_batch: int, length: int, checkpointing: str, ranks: int, stage: int
) -> dict[str, object]:
    """Build one point of a grid of questions.

    The grid is over batch, sequence, checkpointing, ranks and stage.
    """
    return {
        "model": "llama-2-7b",
        "workload": {
            "task": "train",
            "micro_batch_size": micro_batch,
            "sequence_length": length,
            "activation_checkpointing": checkpointing,
        },
        "gpu": "A100-SXM4-80GB",
        "layout": {"data_parallel": ranks, "zero_stage": stage},
    }


def build_distinct_items() -> list[dict[str, object]]:
    """Build ten thousand questions, all different."""
    grid = itertools.product(
        (1, 2, 4, 8, 16),
        range(512, 26 * 512, 512),
        ("none", "full"),
        (2**power for power in range(10)),
        (0, 1, 2, 3),
    )
    return [build_question(*point) for point in itertools.islice(grid, NUM_ITEMS)]


def measure_batches() -> Table:
    """Measure batches alone, and single fits alone and during batches."""
    table = Table(
        "what",
        "fits/s",
        "median ms",
        "p99 or worst ms",
        title=f"POST /v1/fit/batch, {NUM_ITEMS:,} distinct items, numbers only",
    )
    body = json.dumps({"items": build_distinct_items(), "detail": "numbers"}).encode()
    single = itertools.cycle(list(_iter_singles()))
    with (
        tempfile.TemporaryDirectory(prefix="headroom-bench-") as data_dir,
        run_service(Path(data_dir)) as port,
    ):
        _post(port, body)
        took = [_post(port, body) for _ in range(_BATCHES)]
        alone = run_load("127.0.0.1", port, single, connections=_SINGLES)
        concurrent, delayed = _measure_during_batches(port, body, single)
    for name, times in (
        ("batches, one after another", took),
        ("batches while single fits are asked", delayed),
    ):
        median = statistics.median(times)
        table.add_row(
            name, f"{NUM_ITEMS / median:,.0f}", f"{median * 1e3:,.0f}", f"{max(times) * 1e3:,.0f}"
        )
    for name, load in (("single fits alone", alone), ("single fits while batches run", concurrent)):
        table.add_row(
            name, f"{load.requests_per_second:,.0f}", f"{load.p50_ms:.2f}", f"{load.p99_ms:.2f}"
        )
    return table


def _iter_singles() -> Iterator[bytes]:
    """Yield single fits about one configuration, each at a level of its own.

    A repeated one would be answered with a kept answer.
    """
    question = build_question(1, 4096, "full", 8, 3)
    for number in range(_NUM_SINGLES):
        body = json.dumps({**question, "confidence": round(0.5 + number * 1e-5, 5)}).encode()
        yield encode_request("POST", "/v1/fit", body)


def _measure_during_batches(
    port: int, body: bytes, single: Iterator[bytes]
) -> tuple[Load, list[float]]:
    """Measure single fits while one batch follows another.

    Returns their load and the seconds of those batches.
    """
    done, took = threading.Event(), []

    def keep_posting() -> None:
        while not done.is_set():
            took.append(_post(port, body))

    poster = threading.Thread(target=keep_posting)
    poster.start()
    try:
        load = run_load("127.0.0.1", port, single, connections=_SINGLES, seconds=_SECONDS)
    finally:
        done.set()
        poster.join()
    return load, took


def _post(port: int, body: bytes) -> float:
    """Send one batch over HTTP and return its seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    begin = time.perf_counter()
    connection.request("POST", "/v1/fit/batch", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    took = time.perf_counter() - begin
    connection.close()
    if answer.status != http.HTTPStatus.OK:
        message = f"a batch was answered with {answer.status}"
        raise RuntimeError(message)
    return took
