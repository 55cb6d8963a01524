"""Open-loop load generator: requests at a constant rate.

The rate does not depend on the servers: each request has a time at which it is due, and its latency
counts from there. A closed loop would wait for a slow answer before it asks again, and so measure
least when the server is slowest ("coordinated omission", Gil Tene). Here a request whose turn has
come while no connection is free waits, and its wait counts.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
_TICK_S = 0.01
_DRAIN_S = 10.0
BROKEN = 0
"""Status of a request whose connection broke before its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Host and port of one replica."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOutcome:
    """Latencies, statuses and lateness of one run.

    Latencies are in seconds from when each request was due.
    """

    latencies_s: Sequence[float]
    statuses: Counter[int]
    unanswered: int
    sent_late: int
    """Requests that found no free connection when they were due."""
    elapsed_s: float


@dataclass(slots=True)
class _RunState:
    """State that the connections share while requests are sent."""

    latencies_s: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)
    in_flight: int = 0
    sent_late: int = 0


class _Connection(asyncio.Protocol):
    """One kept-alive connection with one request at a time on it.

    ``free`` is the queue where it waits for the next.
    """

    def __init__(self, run: _RunState, free: "deque[_Connection]") -> None:
        self._run, self._free = run, free
        self._transport: asyncio.Transport | None = None
        self._due = 0.0
        self._received = bytearray()
        self._expected = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._free.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        if self._due:
            self._finish(BROKEN)

    def send(self, due: float, request: bytes) -> bool:
        """Send a request, unless the connection is gone."""
        if self._transport is None:
            return False
        self._due, self._expected = due, 0
        self._received.clear()
        self._run.in_flight += 1
        self._transport.write(request)
        return True

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._expected:
            end = self._received.find(_HEAD_END)
            if end < 0:
                return
            self._expected = (
                end + len(_HEAD_END) + _parse_content_length(bytes(self._received[:end]))
            )
        if len(self._received) >= self._expected:
            self._finish(int(self._received[9:12]))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _finish(self, status: int) -> None:
        run = self._run
        run.latencies_s.append(asyncio.get_running_loop().time() - self._due)
        run.statuses[status] += 1
        run.in_flight -= 1
        self._due = 0.0
        if self._transport is None:
            return
        if run.waiting:
            self.send(*run.waiting.popleft())
        else:
            self._free.append(self)


async def offer(
    addresses: Sequence[Address],
    bodies: Iterator[bytes],
    *,
    rate: float,
    seconds: float,
    connections: int,
) -> LoadOutcome:
    """Send ``rate`` requests a second for ``seconds``.

    They are spread evenly over the connections and the addresses.
    """
    run, free = _RunState(), deque[_Connection]()
    loop = asyncio.get_running_loop()
    opened = []
    for number in range(connections):
        address = addresses[number % len(addresses)]
        opened.append(
            (
                await loop.create_connection(
                    lambda: _Connection(run, free), address.host, address.port
                )
            )[1],
        )
    requests = [build_fit_request(next(bodies)) for _ in range(round(rate * seconds))]
    began = loop.time()
    try:
        await _send_all(run, free, requests, began, rate)
        elapsed_s = loop.time() - began
        await _drain(run)
    finally:
        unanswered = run.in_flight + len(run.waiting)
        run.waiting.clear()
        for connection in opened:
            connection.close()
    return LoadOutcome(
        latencies_s=sorted(run.latencies_s),
        statuses=run.statuses,
        unanswered=unanswered,
        sent_late=run.sent_late,
        elapsed_s=elapsed_s,
    )


async def _send_all(
    run: _RunState, free: "deque[_Connection]", requests: Sequence[bytes], began: float, rate: float
) -> None:
    clock = asyncio.get_running_loop().time
    for number, request in enumerate(requests):
        due = began + number / rate
        # One that is behind sleeps for no time, but sleeps: it must not starve the answers.
        await asyncio.sleep(max(0.0, due - clock()))
        while free:
            if free.popleft().send(due, request):
                break
        else:
            run.sent_late += 1
            run.waiting.append((due, request))


async def _drain(run: _RunState) -> None:
    for _ in range(round(_DRAIN_S / _TICK_S)):
        if not (run.in_flight or run.waiting):
            return
        await asyncio.sleep(_TICK_S)


def build_fit_request(body: bytes) -> bytes:
    """Encode one HTTP/1.1 request for a fit."""
    head = "POST /v1/fit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _parse_content_length(head: bytes) -> int:
    lowered = head.lower()
    start = lowered.index(_LENGTH) + len(_LENGTH)
    return int(lowered[start:].partition(b"\r\n")[0])
