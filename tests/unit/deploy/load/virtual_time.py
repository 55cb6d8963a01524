"""Event loop without sockets whose clock moves only while everybody waits."""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class FakeServer:
    """Server that answers after some seconds, and nothing before so many requests have come."""

    def __init__(self, *, answers_after: int = 1, seconds: float = 0.0) -> None:
        """Receive nothing yet."""
        self._answers_after, self._seconds = answers_after, seconds
        self._num_requests = 0
        self._waiting: list[asyncio.Protocol] = []

    def receive(self, client: asyncio.Protocol) -> None:
        """Receive one request of a client."""
        self._num_requests += 1
        self._waiting.append(client)
        if self._num_requests >= self._answers_after:
            loop = asyncio.get_running_loop()
            for waiting in self._waiting:
                loop.call_later(self._seconds, waiting.data_received, ANSWER)
            self._waiting.clear()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Event loop whose connections all lead to one fake server."""

    def __init__(self, server: FakeServer) -> None:
        """Begin at second 0."""
        self._server, self._now = server, 0.0
        super().__init__(_Selector(self._pass_time))

    def time(self) -> float:
        """Return the seconds that everybody waited."""
        return self._now

    async def create_connection(  # type: ignore[override]  # what a client of ours asks for
        self, protocol_factory: Callable[[], asyncio.Protocol], *_address: object
    ) -> tuple["_Transport", asyncio.Protocol]:
        """Connect a client to the server."""
        protocol = protocol_factory()
        transport = _Transport(self._server, protocol)
        protocol.connection_made(transport)
        return transport, protocol

    def _pass_time(self, seconds: float) -> None:
        self._now += seconds


class _Transport(asyncio.Transport):
    """Client's end of a connection."""

    def __init__(self, server: FakeServer, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._server, self._protocol = server, protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        del data
        self._server.receive(self._protocol)

    def close(self) -> None:
        return


class _Selector(selectors.SelectSelector):
    """Selector that lets time pass where it would wait."""

    def __init__(self, pass_time: Callable[[float], None]) -> None:
        super().__init__()
        self._pass_time = pass_time

    def select(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        if timeout is not None and timeout > 0:
            self._pass_time(timeout)
        return super().select(0)
