"""Cached fits beside forty callers of long searches: ``python -m tests.load.askers``.

The callers ask about hybrid models that are posted as configs, no two alike: for plans on ten
kinds of GPU, numbers of GPUs, ceilings, fits, or each of these in turn. Beside them cached fits of
another process are due at a constant rate. Servers with and without processes for searches take
turns.
"""

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count, repeat
from pathlib import Path
from typing import Any

import httpx
import psutil
from rich.console import Console

from tests.bench.servers import run_service
from tests.load.generator import Address, LoadOutcome, offer

FORK_SERVER = "service.runtime.children.fork_server"
GPUS = (
    "A100-SXM4-80GB",
    "H100-SXM5-80GB",
    "H200-SXM5-141GB",
    "B200",
    "L4",
    "L40S",
    "A10",
    "T4",
    "V100-SXM2-32GB",
    "RTX-4090",
)
CACHED: dict[str, Any] = {
    "model": "llama-2-7b",
    "workload": {"task": "train", "sequence_length": 4096},
    "gpu": "A100-SXM4-80GB",
}
HYBRID: dict[str, Any] = {
    "model_type": "jamba",
    "vocab_size": 65536,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": 256,
}


KINDS: Mapping[str, dict[str, Any]] = {
    "plans": {"gpus": list(GPUS), "constraints": {"max_gpus": 65536}},
    "how-many": {"gpu": GPUS[0], "constraints": {"max_gpus": 65536}},
    "ceilings": {"gpu": GPUS[0], "maximize": "sequence_length", "num_gpus": 64},
    "fit": {"gpu": GPUS[0], "layout": {"data_parallel": 64, "zero_stage": 3}},
}
"""Paths below /v1, and what a question there says beside its model and workload."""


def make_search(kind: str, number: int) -> dict[str, Any]:
    """Return a question of a kind that nobody asked before."""
    question = {
        "model": {"hf_config": HYBRID | {"num_hidden_layers": 65 + number % 440}},
        "workload": {"task": "train", "method": "full", "sequence_length": 2048 + 8 * number},
    }
    return question | KINDS[kind]


def ask_until(url: str, kinds: Sequence[str], callers: int, ended: Any, answers: Any) -> None:  # noqa: ANN401 - multiprocessing's own
    """Ask on so many connections until the event is set, and put the statuses."""
    asyncio.run(_ask_all(url, kinds, callers, ended, answers))


async def _ask_all(
    url: str,
    kinds: Sequence[str],
    callers: int,
    ended: Any,  # noqa: ANN401 - multiprocessing's own
    answers: Any,  # noqa: ANN401 - multiprocessing's own
) -> None:
    numbers, statuses = count(), Counter[int]()

    async def ask(client: httpx.AsyncClient) -> None:
        while True:
            number = next(numbers)
            kind = kinds[number % len(kinds)]
            answer = await client.post(f"/v1/{kind}", json=make_search(kind, number))
            statuses[answer.status_code] += 1
            if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
                await asyncio.sleep(float(answer.headers["retry-after"]))

    limits = httpx.Limits(max_connections=callers)
    async with httpx.AsyncClient(base_url=url, timeout=None, limits=limits) as client:  # noqa: S113 - it waits until it is stopped
        tasks = [asyncio.create_task(ask(client)) for _ in range(callers)]
        await asyncio.to_thread(ended.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    answers.put(dict(statuses))


def measure(port: int, *, rate: float, seconds: float) -> LoadOutcome:
    """Return the latencies of cached fits at a constant rate."""
    body = json.dumps(CACHED).encode()
    address = Address(host="127.0.0.1", port=port)
    return asyncio.run(offer([address], repeat(body), rate=rate, seconds=seconds, connections=16))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure cached fits alone and beside the callers, and print both."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.askers", description=__doc__)
    parser.add_argument("--callers", type=int, default=40)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=["plans"])
    parser.add_argument(
        "--processes", nargs="+", default=["0", "2"], help="HEADROOM_SEARCH_PROCESSES of servers"
    )
    options = parser.parse_args(arguments)
    for _ in range(options.rounds):
        for processes in options.processes:
            compare(options, processes)
    return 0


def compare(options: argparse.Namespace, processes: str) -> None:
    """Measure a server with so many processes, alone and beside the callers."""
    console, context = Console(width=200), multiprocessing.get_context("spawn")
    settings = {"HEADROOM_SEARCH_PROCESSES": processes}
    with tempfile.TemporaryDirectory() as folder, run_service(Path(folder), **settings) as port:
        console.print(f"{processes} processes for searches")
        measure(port, rate=50, seconds=2)
        _print(console, "alone", measure(port, rate=options.rate, seconds=options.seconds))
        ended, answers = context.Event(), context.Queue()
        url = f"http://127.0.0.1:{port}"
        process = context.Process(
            target=ask_until, args=(url, options.kinds, options.callers, ended, answers)
        )
        process.start()
        time.sleep(3)
        beside = measure(port, rate=options.rate, seconds=options.seconds)
        memory_bytes = _list_child_bytes()
        ended.set()
        statuses = answers.get(timeout=60)
        process.join(timeout=60)
        _print(console, f"beside {options.callers} callers", beside)
        sizes = ", ".join(f"{number / 2**20:.0f} MiB" for number in sorted(memory_bytes))
        console.print(f"answers by status: {statuses}; processes for searches have {sizes or 'no'}")


def _list_child_bytes() -> list[int]:
    """Return the memory of what the fork servers below this process started."""
    return [
        child.memory_info().rss
        for process in psutil.Process().children(recursive=True)
        if FORK_SERVER in process.cmdline()
        for child in process.children()
    ]


def _print(console: Console, name: str, outcome: LoadOutcome) -> None:
    latencies = outcome.latencies_s or [float("nan")]
    shown = {
        share: 1e3 * latencies[min(len(latencies) - 1, int(share * len(latencies)))]
        for share in (0.5, 0.9, 0.99)
    }
    console.print(
        f"{name}: p50 {shown[0.5]:.1f} ms, p90 {shown[0.9]:.1f} ms, p99 {shown[0.99]:.1f} ms, "
        f"longest {1e3 * latencies[-1]:.0f} ms, {dict(outcome.statuses)}, "
        f"{outcome.unanswered} unanswered"
    )


if __name__ == "__main__":
    sys.exit(main())
