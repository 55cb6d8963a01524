"""A small closed-loop HTTP load generator.

Connections are kept alive with one request at a time on each; latencies are in nanoseconds.
"""

import asyncio
import time
from dataclasses import dataclass

_OK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Throughput and latencies of a run of requests."""

    requests_per_second: float
    p50_ms: float
    p99_ms: float
    statuses: dict[int, int]


def encode_request(method: str, path: str, body: bytes = b"") -> bytes:
    """Encode one HTTP/1.1 request."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        f"application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def run_load(
    host: str, port: int, request: bytes, *, connections: int = 16, seconds: float = 3.0
) -> Load:
    """Measure the load that a server takes.

    ``connections`` clients send requests for ``seconds``.
    """
    return asyncio.run(_run(host, port, request, connections, seconds))


async def _run(host: str, port: int, request: bytes, connections: int, seconds: float) -> Load:
    latencies: list[int] = []
    statuses: dict[int, int] = {}
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(
                _run_client(host, port, request, started + seconds, latencies, statuses)
            )
    elapsed = time.perf_counter() - started
    if set(statuses) != {_OK}:
        # How fast a server refuses says nothing about how fast it answers.
        message = f"the server answered {statuses}; a figure needs nothing but 200"
        raise RuntimeError(message)
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
    request: bytes,
    deadline: float,
    latencies: list[int],
    statuses: dict[int, int],
) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    while time.perf_counter() < deadline:
        begin = time.perf_counter_ns()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(_parse_content_length(head))
        latencies.append(time.perf_counter_ns() - begin)
        status = int(head[9:12])
        statuses[status] = statuses.get(status, 0) + 1
    writer.close()
    await writer.wait_closed()


def _parse_content_length(head: bytes) -> int:
    lowered = head.lower()
    start = lowered.index(b"content-length:") + len(b"content-length:")
    return int(lowered[start : lowered.index(b"\r\n", start)])
