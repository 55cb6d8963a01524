"""``make bench``: the time of estimates and searches, what POST /v1/fit sustains beside a raw ASGI application, a cold ``fit``.

Ratios inside one run mean something; absolute values depend on what else the machine does.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import PlanCache, estimate
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.result import Detail
from service.estimator.values.workload import Checkpointing, Engine, Lora, Method, ServeWorkload, TrainWorkload, Workload
from tests.bench.batches import batches
from tests.bench.load import Load, request_bytes, run_load
from tests.bench.page import write_page
from tests.bench.published import published
from tests.bench.rules import rules
from tests.bench.searches import searches
from tests.bench.servers import floor, service

QUESTION = {
    "model": "llama-2-7b",
    "workload": {"task": "train", "sequence_length": 4096, "activation_checkpointing": "full"},
    "gpu": "A100-SXM4-80GB",
    "layout": {"data_parallel": 8, "zero_stage": 3},
}
COLD = ["fit", "llama-2-7b", "--gpu", "A100-SXM4-80GB", "--task", "train", "--sequence-length", "4096", "--json"]


def median_us(call: Callable[[], object], *, rounds: int = 7, calls: int = 200) -> float:
    """Return the median over rounds of the time of one call, in microseconds."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(times)


def _questions() -> Iterator[tuple[str, str, Workload, Layout]]:
    """Yield a title, a model and what is asked of it: llama-like models, methods that train a part, families beside them."""
    one, sharded = Layout(), Layout(data_parallel=8, zero_stage=3, sharding=Sharding.DEEPSPEED)
    fsdp = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2)
    full = TrainWorkload(sequence_length=4096, activation_checkpointing=Checkpointing.FULL)
    lora = replace(full, method=Method.LORA, lora=Lora(rank=16))
    yield "Llama-2-7B, full, checkpointing", "llama-2-7b", full, one
    yield "Llama-2-7B, full, checkpointing, ZeRO-3 on 8", "llama-2-7b", full, sharded
    yield "Llama-2-7B, full, checkpointing, FSDP2 on 8", "llama-2-7b", full, fsdp
    yield "Llama-2-7B, full, Adafactor", "llama-2-7b", replace(full, optimizer="adafactor"), one
    yield "Llama-2-7B, LoRA", "llama-2-7b", lora, one
    yield "Llama-2-7B, QLoRA", "llama-2-7b", replace(lora, method=Method.QLORA), one
    yield "Mixtral-8x7B, full, ZeRO-3 on 8", "mixtral-8x7b", TrainWorkload(sequence_length=4096), sharded
    for title, name, tokens in (
        ("T5-base", "t5-base", 512),
        ("Whisper-tiny", "whisper-tiny", 128),
        ("BERT-base", "bert-base", 512),
        ("ViT-B/16", "vit-base-patch16-224", 197),
        ("Gemma-3-4B", "gemma-3-4b", 2048),
        ("Jamba", "jamba-v0.1", 2048),
    ):
        yield f"{title}, full", name, TrainWorkload(sequence_length=tokens), one
    serve = ServeWorkload(num_sequences=64, prompt_tokens=2048)
    yield "Llama-2-70B, serving 64 x 2048", "llama-2-70b", serve, one
    yield "Llama-2-70B, vLLM, 64 x 2048", "llama-2-70b", replace(serve, engine=Engine.VLLM), one


def estimates() -> Table:
    """Return the times of estimates in process."""
    table = Table(
        "estimate in process, µs",
        "numbers only",
        "explained",
        "replayed before",
        "first time",
        "first time, replayed",
        title="Estimator",
    )
    device, plans = resolve_gpu("A100-SXM4-80GB").device(), PlanCache()
    for title, name, workload, layout in _questions():
        model = load_architecture(resolve_model(name))
        ask = partial(estimate, model, workload, layout=layout, device=device)
        warm = [median_us(partial(ask, plans=plans, detail=detail)) for detail in Detail]
        cold = [median_us(partial(ask, detail=detail), calls=5) for detail in (Detail.FULL, Detail.REPLAYED)]
        table.add_row(title, *(f"{time:,.0f}" for time in (*warm, *cold)))
    return table


def requests() -> Table:
    """Return what the HTTP API sustains, beside the floor, interleaved in one run."""
    table = Table("endpoint", "requests/s", "p50 ms", "p99 ms", "statuses", title="HTTP, 1 server process, 16 connections")
    fit = request_bytes("POST", "/v1/fit", json.dumps(QUESTION).encode())
    rows: dict[str, list[Load]] = {"raw ASGI, constant body": [], "POST /v1/fit, full answer": []}
    with tempfile.TemporaryDirectory(prefix="headroom-bench-") as data_dir, service(Path(data_dir)) as port, floor() as base:
        for _ in range(3):
            rows["raw ASGI, constant body"].append(run_load("127.0.0.1", base, fit))
            rows["POST /v1/fit, full answer"].append(run_load("127.0.0.1", port, fit))
    for name, loads in rows.items():
        best = max(loads, key=lambda load: load.requests_per_second)
        table.add_row(name, f"{best.requests_per_second:,.0f}", f"{best.p50_ms:.2f}", f"{best.p99_ms:.2f}", str(best.statuses))
    return table


def cold_start() -> Table:
    """Return the time of a cold ``headroom fit`` beside a bare interpreter."""
    table = Table("command", "median ms", title="Cold start, 11 runs")
    commands = {"python -c pass": [sys.executable, "-c", "pass"], "headroom fit": [sys.executable, "-m", "service", *COLD]}
    for name, command in commands.items():
        table.add_row(name, f"{statistics.median(_wall_ms(command) for _ in range(11)):.0f}")
    return table


def _wall_ms(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    """Print all tables; with ``--write`` the page of the benchmarks as well."""
    console = Console()
    tables = []
    for part in (estimates, searches, published, rules, cold_start, requests, batches):
        tables.append(part())
        console.print(tables[-1])
    if "--write" in sys.argv[1:]:
        write_page(tables)


if __name__ == "__main__":
    main()
