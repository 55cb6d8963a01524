"""A connection of the server over a transport and a clock that a test moves."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from service.cli.serving.bounds import Bounds
from service.cli.serving.connection import BoundedConnection

POST = b"POST /%b HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n%b\r\n"
App = Callable[[Any, Any, Any], Awaitable[None]]


class Wire(asyncio.Transport):
    """A transport that keeps what was sent, and whose client reads when a test says so."""

    def __init__(self, address: str = "10.0.0.1") -> None:
        """Begin open."""
        super().__init__({"peername": (address, 1), "sockname": ("10.0.0.2", 8000)})
        self.sent = b""
        self.is_closed = self.is_aborted = False
        self.num_unsent_bytes = 0

    def write(self, data: Any) -> None:  # noqa: ANN401 - as asyncio has it
        """Keep it."""
        self.sent += bytes(data)

    def close(self) -> None:
        """Close."""
        self.is_closed = True

    def abort(self) -> None:
        """Close at once."""
        self.is_closed = self.is_aborted = True

    def is_closing(self) -> bool:
        """Return whether it was closed."""
        return self.is_closed

    def can_write_eof(self) -> bool:
        """Return that an end can be sent."""
        return True

    def write_eof(self) -> None:
        """Send an end."""

    def pause_reading(self) -> None:
        """Read no more."""

    def resume_reading(self) -> None:
        """Read on."""

    def get_write_buffer_size(self) -> int:
        """Return how much the client has not read."""
        return self.num_unsent_bytes


@dataclass(slots=True)
class Clock:
    """A loop whose time a test moves, and that runs what is due."""

    now_s: float = 0.0
    due: list[tuple[float, asyncio.TimerHandle]] = field(default_factory=list)

    def time(self) -> float:
        """Return the time."""
        return self.now_s

    def call_later(self, delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Note what is due when."""
        handle = asyncio.get_running_loop().call_later(3600, call)
        self.due.append((self.now_s + delay_s, handle))
        return handle

    def create_task(self, work: Any) -> "asyncio.Task[None]":  # noqa: ANN401 - a coroutine
        """Run it in the test's own loop."""
        return asyncio.get_running_loop().create_task(work)

    def pass_s(self, seconds: float) -> None:
        """Let time pass, and call what is due on the way."""
        end = self.now_s + seconds
        while early := [entry for entry in self.due if entry[0] <= end]:
            entry = min(early, key=lambda one: one[0])
            self.due.remove(entry)
            self.now_s, handle = entry
            if not handle.cancelled():
                handle._run()  # noqa: SLF001 - as its loop does when it is due
                handle.cancel()
        self.now_s = end


@dataclass(slots=True)
class Server:
    """Connections of one process, over one application."""

    bounds: Bounds = field(default_factory=Bounds)
    clock: Clock = field(default_factory=Clock)
    state: ServerState = field(default_factory=ServerState)
    asked: list[str] = field(default_factory=list)
    num_left: int = 0
    holding: asyncio.Event = field(default_factory=asyncio.Event)

    def connect(self, address: str = "10.0.0.1") -> tuple[BoundedConnection, Wire]:
        """Return a new connection and what its client sees."""
        config = uvicorn.Config(
            self._answer, interface="asgi3", proxy_headers=False, log_config=None, ws="none"
        )
        made = BoundedConnection(
            config=config,
            server_state=self.state,
            app_state={},
            _loop=self.clock,
            bounds=self.bounds,
        )
        wire = Wire(address)
        made.connection_made(wire)
        return made, wire

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's
        """Refuse what is large unread, hold what is to be held, echo the rest."""
        self.asked.append(scope["path"])
        status = 413 if scope["path"] == "/large" else 200
        if scope["path"] == "/held":
            await self.holding.wait()
        elif status == 200:
            while (message := await receive()).get("more_body", False):
                pass
            self.num_left += message["type"] == "http.disconnect"
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})


async def settle() -> None:
    """Let the application answer what it can."""
    for _ in range(8):
        await asyncio.sleep(0)
