"""Time of a processor that each scheduler's hook takes, alone and several at once.

The API runs in this process over fakes, and what counts is the process's time on all its threads,
the client's and the search's that goes on behind an answer included: other work on the machine
takes none of it, and one interpreter answers no sooner than it has computed.
"""

import gc
import itertools
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from litestar.testing import TestClient
from rich.table import Table

from service.api.http.dependencies import Dependencies
from service.cli.gc_tuning import shorten_pauses
from service.usecases.hooks.way_out import WayOuts
from tests.unit.api.builders import parts, served

_ASKED = 60
"""Questions of each kind at each door, in turn: what slows the machine slows all of them."""
_FITS = "llama-3.1-8b --task train --method lora"
_TIGHT = "llama-3.1-8b --task train --method lora --micro-batch-size 4"
"""Fits, or nearly: what decides is a replay."""
_TOO_LARGE = "llama-2-7b --task train --activation-checkpointing full"
_A100 = "--gpu A100-SXM4-80GB"
_LENGTHS = itertools.count(1025)
_SIZES = (
    f"--lora-rank {rank} --sequence-length {tokens}"
    for rank in itertools.count(8)
    for tokens in range(800, 1000)
)
"""Of questions of which no two are alike, and which need about as much."""
_LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.memory": "81920",
}
_NODE = {"metadata": {"name": "n1", "labels": _LABELS}}
_AT_ONCE = 3

Body = dict[str, Any]


def _make_pod(question: str) -> Body:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    annotations = {"headroom.dev/question": question}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tune", "namespace": "ml", "annotations": annotations},
        "spec": {"containers": [container]},
    }


def _make_review(question: str) -> Body:
    reviewed = {"uid": "u", "operation": "CREATE", "object": _make_pod(question)}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": reviewed,
    }


def _make_dstack_spec(question: str) -> Body:
    configuration = {
        "type": "task",
        "env": {"HEADROOM_QUESTION": question},
        "resources": {"gpu": {"count": 1}},
    }
    return {"user": "ann", "project": "main", "spec": {"configuration": configuration}}


def _make_task(question: str) -> Body:
    task = {"resources": {"accelerators": "A100-80GB:1"}, "envs": {"HEADROOM_QUESTION": question}}
    return {"task": json.dumps(task), "skypilot_config": "{}", "request_name": "launch"}


def _make_slurm_job(question: str) -> Body:
    options = {"gres": "gres/gpu:nvidia_a100-sxm4-80gb:1", "argv": ["job.sh"]}
    return {"options": options, "script": f"#!/bin/sh\n#HEADROOM {question}\n", "user": "ann"}


def _make_filter(question: str) -> Body:
    return {"Pod": _make_pod(question), "Nodes": {"metadata": {}, "items": [_NODE]}}


def _make_predicate(question: str) -> Body:
    return {"task": {"Pod": _make_pod(question)}, "node": {"Name": "n1", "Node": _NODE}}


_DOORS: dict[str, tuple[str, Callable[[str], Body]]] = {
    "slurm": ("slurm/warn", _make_slurm_job),
    "kubernetes": ("kubernetes/warn", _make_review),
    "skypilot": ("skypilot/warn", _make_task),
    "dstack": ("dstack/warn/apply_policies/on_run_apply", _make_dstack_spec),
    "kueue": ("kueue/warn", lambda question: {"objects": [_make_pod(question)]}),
    "kube-scheduler": ("kube-scheduler/warn/filter", _make_filter),
    "volcano": ("volcano/warn/predicate", _make_predicate),
}
_KINDS: dict[str, Callable[[], str]] = {
    "fits, asked before": lambda: f"{_FITS} {_A100} --sequence-length 1024",
    "does not fit, asked before": lambda: f"{_TOO_LARGE} {_A100} --sequence-length 1024",
    "fits, new": lambda: f"{_FITS} {_A100} {next(_SIZES)}",
    "is tight, new": lambda: f"{_TIGHT} {_A100} {next(_SIZES)}",
    "does not fit, new": lambda: f"{_TOO_LARGE} {_A100} --sequence-length {next(_LENGTHS)}",
}


def measure_hooks() -> Table:
    """Measure every door with every kind of question."""
    table = Table(
        "door",
        "question",
        "p50 ms",
        "p99 ms",
        f"p50 ms, {_AT_ONCE} at once",
        f"p99 ms, {_AT_ONCE} at once",
        title="Hooks, milliseconds of a processor until the last is answered",
    )
    cases = list(itertools.product(_DOORS, _KINDS))
    alone: dict[tuple[str, str], list[float]] = {case: [] for case in cases}
    together: dict[tuple[str, str], list[float]] = {case: [] for case in cases}
    shorten_pauses()
    with served() as client, ThreadPoolExecutor(_AT_ONCE) as threads:
        for kind in _KINDS:
            _ask(client, "slurm", kind)
        gc.collect()
        for _ in range(_ASKED):
            for case in cases:
                alone[case].append(_time(partial(_ask, client, *case)))
        for _ in range(_ASKED):
            for case in cases:
                together[case].append(_time(partial(_ask_together, threads, client, case)))
    for case in cases:
        table.add_row(*case, *_format_figures(alone[case], together[case]))
    return table


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
        for client, kind in itertools.product(clients.values(), _KINDS):
            _ask(client, "slurm", kind)
        gc.collect()
        for kind in (kind for kind in _KINDS if kind.endswith(", new")):
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


def _format_figures(*all_times: list[float]) -> list[str]:
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
    path, build = _DOORS[door]
    answer = client.post(f"/v1/hooks/{path}", json=build(_KINDS[kind]()))
    answer.raise_for_status()
