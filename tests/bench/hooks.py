"""Time that each scheduler's hook takes: ``python -m tests.bench.hooks``.

A server with everything embedded is asked over a socket, alone and several at once: on the clock,
which says something on a quiet machine alone, and of the server's processor, which other work takes
none of. What searches beside the server take is in neither. Bursts are asked of the application in
this process, where its clients count as well.
"""

import argparse
import gc
import http.client
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from litestar.testing import TestClient
from rich.console import Console
from rich.table import Table

from service.api.http.dependencies import Dependencies
from service.cli.gc_tuning import shorten_pauses
from service.usecases.hooks.way_out import WayOuts
from tests.bench.hook_questions import DOORS, KINDS, make_body
from tests.bench.page import write_hooks
from tests.bench.servers import run_service
from tests.unit.api.builders import parts, served

_ASKED = 60
"""Questions of each kind at each door, in turn: what slows the machine slows all of them."""
_AT_ONCE = 3
_MS = 1e3
Times = tuple[float, float]
"""Milliseconds on the clock, and of the server's processor."""


def measure_hooks(num_asked: int = _ASKED) -> Table:
    """Measure every door with every kind of question."""
    table = Table(
        "door",
        "question",
        "clock p50 ms",
        "p99 ms",
        "processor p50 ms",
        "p99 ms",
        f"clock p50 ms, {_AT_ONCE} at once",
        f"p99 ms, {_AT_ONCE} at once",
        title=f"Hooks, milliseconds until the last is answered, {os.getloadavg()[0]:.1f} processes "
        f"on {os.cpu_count()} cores before",
    )
    cases = list(itertools.product(DOORS, KINDS))
    alone: dict[tuple[str, str], list[Times]] = {case: [] for case in cases}
    together: dict[tuple[str, str], list[Times]] = {case: [] for case in cases}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(run_service(folder))
        threads = stack.enter_context(ThreadPoolExecutor(_AT_ONCE))
        asked = [
            partial(_send, stack.enter_context(closing(_connect(port)))) for _ in range(_AT_ONCE)
        ]
        server = _find_server(port)
        for case in cases:
            asked[0](*make_body(*case))
        for _ in range(num_asked):
            for case in cases:
                alone[case].append(_time_of(server, threads, asked[:1], case))
                together[case].append(_time_of(server, threads, asked, case))
    for case in cases:
        clock, processor = zip(*alone[case], strict=True)
        table.add_row(
            *case, *_format_figures(clock, processor, [each[0] for each in together[case]])
        )
    return table


def _connect(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=60)


def _send(connection: http.client.HTTPConnection, path: str, body: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/json"}
    connection.request("POST", f"/v1/hooks/{path}", json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == http.client.OK, text


def _find_server(port: int) -> int:
    """Return the process that listens on a port and answers."""
    listening = {
        each.pid
        for each in psutil.net_connections("tcp")
        if each.laddr.port == port and each.status == psutil.CONN_LISTEN and each.pid is not None
    }
    # A process that starts servers may hold their socket: they are younger.
    return int(max(listening, key=lambda pid: psutil.Process(pid).create_time()))


def _count_processor_ms(pid: int) -> float:
    """Return what all threads of a process have taken, to the nanosecond."""
    spent = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with (thread / "schedstat").open() as file:
            spent += int(file.read().split()[0])
    return spent / 1e6


def _time_of(
    server: int,
    threads: ThreadPoolExecutor,
    asked: Sequence[Callable[[str, dict[str, Any]], None]],
    case: tuple[str, str],
) -> Times:
    """Return what as many questions at once take as there are connections."""
    bodies = [make_body(*case) for _ in asked]
    before, begin = _count_processor_ms(server), time.perf_counter()
    answers = [threads.submit(ask, *body) for ask, body in zip(asked, bodies, strict=True)]
    for answer in answers:
        answer.result()
    elapsed = (time.perf_counter() - begin) * _MS
    return elapsed, _count_processor_ms(server) - before


def measure_bursts() -> Table:
    """Measure new questions with the allocator replayed, and where it could turn a verdict."""
    table = Table(
        "question",
        "replayed",
        "p50 ms",
        "p99 ms",
        f"p50 ms, {_AT_ONCE} at once",
        f"p99 ms, {_AT_ONCE} at once",
        title="Hooks, new questions, milliseconds of a processor until the last is answered",
    )
    shorten_pauses()
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(_AT_ONCE))
        way_outs = WayOuts()
        clients = {
            is_replayed: stack.enter_context(served(_make_parts(way_outs, is_replayed=is_replayed)))
            for is_replayed in (True, False)
        }
        for client, kind in itertools.product(clients.values(), KINDS):
            _ask(client, "slurm", kind)
        gc.collect()
        for kind in (kind for kind in KINDS if kind.endswith(", new")):
            alone: dict[bool, list[float]] = {True: [], False: []}
            together: dict[bool, list[float]] = {True: [], False: []}
            for _, (is_replayed, client) in itertools.product(range(_ASKED), clients.items()):
                alone[is_replayed].append(_time(partial(_ask, client, "slurm", kind)))
            for _, (is_replayed, client) in itertools.product(range(_ASKED), clients.items()):
                ask = partial(_ask_together, threads, client, ("slurm", kind))
                together[is_replayed].append(_time(ask))
            for is_replayed in clients:
                figures = _format_figures(alone[is_replayed], together[is_replayed])
                table.add_row(kind, "always" if is_replayed else "where it matters", *figures)
    return table


def _make_parts(way_outs: WayOuts, *, is_replayed: bool) -> Dependencies:
    """Return parts whose searches stand still while either server answers."""
    made = parts()
    settings = replace(made.settings, hook_replay=is_replayed)
    return replace(made, settings=settings, way_outs=way_outs)


def _format_figures(*all_times: Sequence[float]) -> list[str]:
    """Return median and 99th percentile of each list."""
    return [
        f"{figure:.1f}"
        for times in all_times
        for figure in (statistics.median(times), sorted(times)[len(times) * 99 // 100])
    ]


def _time(call: Callable[[], object]) -> float:
    """Return the milliseconds of a processor that a call takes."""
    started = time.process_time()
    call()
    return (time.process_time() - started) * 1e3


def _ask_together(
    threads: ThreadPoolExecutor, client: TestClient[Any], case: tuple[str, str]
) -> None:
    for asked in [threads.submit(_ask, client, *case) for _ in range(_AT_ONCE)]:
        asked.result()


def _ask(client: TestClient[Any], door: str, kind: str) -> None:
    path, body = make_body(door, kind)
    client.post(f"/v1/hooks/{path}", json=body).raise_for_status()


def main() -> None:
    """Print what every hook takes."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hooks")
    parser.add_argument(
        "--asked", type=int, default=200, help="questions of each kind at each door"
    )
    parser.add_argument("--write", action="store_true", help="put them into docs/benchmarks.md")
    options = parser.parse_args()
    table = measure_hooks(options.asked)
    Console(width=160).print(table)
    if options.write:
        write_hooks(table)


if __name__ == "__main__":
    main()
