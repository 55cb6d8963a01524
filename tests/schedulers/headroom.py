"""A Headroom of a bench's own, which real schedulers ask, and what it decided about them."""

import json
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_PATIENCE_S = 300.0
_STORED_S = 30.0
"""Longest wait until what was decided is stored; a second is usual."""
_DECIDED = re.compile(
    r"^headroom_hook_decisions_total\{(?P<labels>[^}]*)\} (?P<number>\S+)$", re.MULTILINE
)


@contextmanager
def serve(questions: Sequence[str] = ()) -> Iterator[str]:
    """Yield the address of a Headroom, as it is set up by itself; it ends with it.

    ``questions`` are asked before, so that no scheduler's patience is spent on the search for how
    many GPUs they need.
    """
    url = f"http://127.0.0.1:{find_port()}"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "service", "up", "--port", url.rpartition(":")[2]]
        options = ["--data-dir", folder, "--workers", "0", "--gpus", "none"]
        process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            await_answer(f"{url}/readyz")
            for question in questions:
                _await_number(url, question)
            yield url
        finally:
            process.terminate()
            process.wait()


def list_decisions(url: str, door: str) -> str:
    """Return what a Headroom decided last at a door, newest first, in a few words each.

    It tells a door that let a job pass from a scheduler that did not wait for its answer.
    """
    deadline = time.monotonic() + _STORED_S
    while True:
        with urllib.request.urlopen(f"{url}/metrics") as answer:  # noqa: S310 - our own address
            decided = count_decisions(answer.read().decode(), door)
        with urllib.request.urlopen(f"{url}/v1/hooks/decisions?door={door}&limit=200") as answer:  # noqa: S310 - as above
            rows = json.load(answer)["items"]
        missing = decided - sum(row["num_times"] for row in rows)
        if missing <= 0 or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    said = "; ".join(f"{row['verdict']}, {row['action']} at {row['at']}" for row in rows[:3])
    unstored = f"; {missing} more are not stored" if missing > 0 else ""
    return f"Headroom decided: {said or 'nothing'}{unstored}"


def count_decisions(metrics: str, door: str) -> int:
    """Return how many jobs were decided about at a door, by the page of metrics.

    Those that ask for no GPU are in no log, and not counted.
    """
    return sum(
        int(float(line["number"]))
        for line in _DECIDED.finditer(metrics)
        if f'door="{door}"' in line["labels"] and 'verdict="none"' not in line["labels"]
    )


def _await_number(url: str, question: str) -> None:
    """Ask about a job on one A100 until the answer is whole.

    Raises TimeoutError where it never is.
    """
    body = json.dumps({"objects": [_make_pod(question)]}).encode()
    headers = {"Content-Type": "application/json"}
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        request = urllib.request.Request(f"{url}/v1/hooks/kueue/refuse", body, headers)  # noqa: S310 - our own address
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - as above
            if not json.load(answer)["is_transient"]:
                return
        time.sleep(0.2)
    message = f"{url} has no whole answer about {question!r} within {_PATIENCE_S:.0f} s"
    raise TimeoutError(message)


def _make_pod(question: str) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    selector = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "warm", "annotations": {"headroom.dev/question": question}},
        "spec": {"nodeSelector": selector, "containers": [container]},
    }


def find_port() -> int:
    """Return a port of this machine that is free."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def await_answer(url: str) -> None:
    """Wait until an address answers.

    Raises TimeoutError where it never does.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own address
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    message = f"{url} did not answer within {_PATIENCE_S:.0f} s"
    raise TimeoutError(message)
