"""Benchmarks of estimates, searches and the HTTP API: ``make bench``.

They time estimates and searches, what POST /v1/fit sustains next to a raw ASGI application, and a
cold ``fit``. Ratios inside one run mean something; absolute values depend on what else the machine
does.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from rich.console import Console
from rich.table import Table

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.cli.gc_tuning import shorten_pauses
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.result import Detail
from service.estimator.values.workload import (
    Checkpointing,
    Engine,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from tests.bench.batches import measure_batches
from tests.bench.hooks import measure_bursts, measure_hooks
from tests.bench.inventories import time_imports
from tests.bench.page import write_page
from tests.bench.published import tabulate_published
from tests.bench.recordings import compare_recordings
from tests.bench.requests import measure_requests
from tests.bench.rules import score_rules
from tests.bench.searches import time_searches
from tests.bench.verdicts import compare_verdicts

COLD = [
    "fit",
    "llama-2-7b",
    "--gpu",
    "A100-SXM4-80GB",
    "--task",
    "train",
    "--sequence-length",
    "4096",
    "--json",
]


_DETAILS = (Detail.NUMBERS, Detail.LEAST, Detail.FULL, Detail.REPLAYED)


def measure_median_us(call: Callable[[], object], *, rounds: int = 7, calls: int = 200) -> float:
    """Measure the median CPU time of one call, in microseconds.

    The median is one over rounds. Other work on the machine takes none of it.
    """
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(calls):
            call()
        times.append((time.process_time() - begin) / calls * 1e6)
    return statistics.median(times)


def _iter_questions() -> Iterator[tuple[str, str, Workload, Layout]]:
    """Yield titles, models and questions for the table of estimates.

    There are llama-like models, methods that train a part, and other families.
    """
    single, sharded = Layout(), Layout(data_parallel=8, zero_stage=3, sharding=Sharding.DEEPSPEED)
    fsdp = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.FSDP2)
    full = TrainWorkload(sequence_length=4096, activation_checkpointing=Checkpointing.FULL)
    lora = replace(full, method=Method.LORA, lora=Lora(rank=16))
    yield "Llama-2-7B, full, checkpointing", "llama-2-7b", full, single
    yield "Llama-2-7B, full, checkpointing, ZeRO-3 on 8", "llama-2-7b", full, sharded
    yield "Llama-2-7B, full, checkpointing, FSDP2 on 8", "llama-2-7b", full, fsdp
    yield "Llama-2-7B, full, Adafactor", "llama-2-7b", replace(full, optimizer="adafactor"), single
    yield "Llama-2-7B, LoRA", "llama-2-7b", lora, single
    yield "Llama-2-7B, QLoRA", "llama-2-7b", replace(lora, method=Method.QLORA), single
    yield (
        "Mixtral-8x7B, full, ZeRO-3 on 8",
        "mixtral-8x7b",
        TrainWorkload(sequence_length=4096),
        sharded,
    )
    for title, name, tokens in (
        ("T5-base", "t5-base", 512),
        ("Whisper-tiny", "whisper-tiny", 128),
        ("BERT-base", "bert-base", 512),
        ("ViT-B/16", "vit-base-patch16-224", 197),
        ("Gemma-3-4B", "gemma-3-4b", 2048),
        ("Jamba", "jamba-v0.1", 2048),
    ):
        yield f"{title}, full", name, TrainWorkload(sequence_length=tokens), single
    serve = ServeWorkload(num_sequences=64, prompt_tokens=2048)
    yield "Llama-2-70B, serving 64 x 2048", "llama-2-70b", serve, single
    yield "Llama-2-70B, vLLM, 64 x 2048", "llama-2-70b", replace(serve, engine=Engine.VLLM), single


def time_estimates() -> Table:
    """Time estimates in process."""
    table = Table(
        "estimate in process, µs",
        "numbers only",
        "without holes",
        "explained",
        "replayed before",
        "first time",
        "first time, replayed",
        title="Estimator",
    )
    device, plans = resolve_gpu("A100-SXM4-80GB").to_device(), PlanCache()
    for title, name, workload, layout in _iter_questions():
        model = load_architecture(resolve_model(name))
        ask = partial(estimate, model, workload, layout=layout, device=device)
        warm = [measure_median_us(partial(ask, plans=plans, detail=detail)) for detail in _DETAILS]
        cold = [
            measure_median_us(partial(ask, detail=detail), calls=5)
            for detail in (Detail.FULL, Detail.REPLAYED)
        ]
        table.add_row(title, *(f"{time:,.0f}" for time in (*warm, *cold)))
    return table


def time_cold_start() -> Table:
    """Time a cold ``headroom fit`` next to a bare interpreter."""
    table = Table("command", "median ms", title="Cold start, 11 runs")
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "headroom fit": [sys.executable, "-m", "service", *COLD],
    }
    for name, command in commands.items():
        table.add_row(
            name, f"{statistics.median(_measure_wall_ms(command) for _ in range(11)):.0f}"
        )
    return table


def _measure_wall_ms(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    """Print all tables, and with ``--write`` write the benchmarks page."""
    console = Console()
    # As a server that answers.
    shorten_pauses()
    tables = []
    for part in (
        time_estimates,
        compare_recordings,
        time_searches,
        time_imports,
        compare_verdicts,
        tabulate_published,
        score_rules,
        time_cold_start,
        measure_requests,
        measure_batches,
        measure_hooks,
        measure_bursts,
    ):
        tables.append(part())
        console.print(tables[-1])
    if "--write" in sys.argv[1:]:
        write_page(tables)


if __name__ == "__main__":
    main()
