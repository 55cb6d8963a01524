"""Measurements that run during the load test.

Each worker always has one to run and one that waits.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx

from tests.load.generator import Address

LOOK_EVERY_S = 0.5
WAITING = 2
"""Of each device, running or queued."""
_REQUESTS = {
    "trace": {"model": "qwen2.5-0.5b", "gpu": "A100-SXM4-80GB"},
    "cpu": {"model": "gpt2"},
}


def send_each(replica: Address, bodies: Sequence[bytes]) -> None:
    """Send each question once to a replica.

    They go one after the other; raises where one is refused.
    """
    headers = {"content-type": "application/json"}
    with httpx.Client(
        base_url=f"http://{replica.host}:{replica.port}", headers=headers, timeout=60.0
    ) as client:
        for body in bodies:
            client.post("/v1/fit", content=body).raise_for_status()


@contextmanager
def run_measurements(replicas: Sequence[Address], devices: Sequence[str]) -> Iterator[Counter[str]]:
    """Keep every worker busy for the length of a block.

    Yields how many measurements ended, by device and status.
    """
    ended: Counter[str] = Counter()
    stop = threading.Event()
    thread = threading.Thread(
        target=_keep_busy, args=(replicas, sorted(set(devices)), ended, stop), daemon=True
    )
    thread.start()
    try:
        yield ended
    finally:
        stop.set()
        thread.join()


def _keep_busy(
    replicas: Sequence[Address], devices: Sequence[str], ended: Counter[str], stop: threading.Event
) -> None:
    lengths = itertools.count(16)
    turns = itertools.cycle(replicas)
    open_jobs: dict[str, str] = {}
    with httpx.Client(timeout=30.0) as client:
        while not stop.is_set():
            replica = next(turns)
            base = f"http://{replica.host}:{replica.port}"
            for device in devices:
                while (
                    sum(1 for open_device in open_jobs.values() if open_device == device) < WAITING
                ):
                    open_jobs[_submit(client, base, device, next(lengths))] = device
            for path, device in list(open_jobs.items()):
                status = client.get(base + path).json()["status"]
                if status in {"succeeded", "failed", "cancelled"}:
                    ended[f"{device} {status}"] += 1
                    del open_jobs[path]
            stop.wait(LOOK_EVERY_S)


def _submit(client: httpx.Client, base: str, device: str, sequence_length: int) -> str:
    workload = {"task": "train", "sequence_length": sequence_length}
    answer = client.post(
        f"{base}/v1/measurements",
        json={**_REQUESTS[device], "device": device, "workload": workload},
    )
    answer.raise_for_status()
    return answer.headers["location"]
