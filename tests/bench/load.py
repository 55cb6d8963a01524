"""A small closed-loop HTTP load generator.

Connections are kept alive with one request at a time on each; latencies are in nanoseconds.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_OK = 200
_NOT_MODIFIED = 304
"""Has no body and no length of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Throughput and latencies of a run of requests."""

    requests_per_second: float
    p50_ms: float
    p99_ms: float
    statuses: dict[int, int]


def encode_request(
    method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> bytes:
    """Encode one HTTP/1.1 request."""
    said = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def run_load(
    host: str,
    port: int,
    requests: bytes | Iterator[bytes],
    *,
    connections: int = 16,
    seconds: float = 3.0,
    status: int = _OK,
) -> Load:
    """Measure the load that a server takes.

    ``connections`` clients send one request again and again, or each the next of many, for
    ``seconds``. Every answer has ``status``: how fast a server refuses says nothing about how fast
    it answers.
    """
    drawn = itertools.repeat(requests) if isinstance(requests, bytes) else requests
    load = asyncio.run(_run(host, port, drawn, connections, seconds))
    if set(load.statuses) != {status}:
        message = f"the server answered {load.statuses}; a figure needs nothing but {status}"
        raise RuntimeError(message)
    return load


async def _run(
    host: str, port: int, requests: Iterator[bytes], connections: int, seconds: float
) -> Load:
    latencies: list[int] = []
    statuses: dict[int, int] = {}
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(
                _run_client(host, port, requests, started + seconds, latencies, statuses)
            )
    elapsed = time.perf_counter() - started
    latencies.sort()
    return Load(
        requests_per_second=len(latencies) / elapsed,
        p50_ms=latencies[len(latencies) // 2] / 1e6,
        p99_ms=latencies[len(latencies) * 99 // 100] / 1e6,
        statuses=statuses,
    )


async def _run_client(
    host: str,
    port: int,
    requests: Iterator[bytes],
    deadline: float,
    latencies: list[int],
    statuses: dict[int, int],
) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    while time.perf_counter() < deadline:
        begin = time.perf_counter_ns()
        writer.write(next(requests))
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        if status != _NOT_MODIFIED:
            await reader.readexactly(_parse_content_length(head))
        latencies.append(time.perf_counter_ns() - begin)
        statuses[status] = statuses.get(status, 0) + 1
    writer.close()
    await writer.wait_closed()


def _parse_content_length(head: bytes) -> int:
    lowered = head.lower()
    start = lowered.index(b"content-length:") + len(b"content-length:")
    return int(lowered[start : lowered.index(b"\r\n", start)])
