"""HTTP connections with bounds on what their clients may take.

uvicorn has no time-out for headers and bodies, no bound on headers and none on connections, and
closes a connection whose client still writes, so that it never reads why.
"""

import asyncio
import math
from collections import Counter
from enum import Enum
from functools import partial
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.cli.serving.bounds import KEEP_ALIVE_S, Bounds
from service.cli.serving.lingering import Lingering
from service.cli.serving.refusals import Refusal
from service.runtime.logs import get_logger

_log = get_logger(__name__)
_DEFAULTS = Bounds()
_WARNED_EVERY_S = 60.0
_SPOKEN = frozenset(("1.0", "1.1"))
"""Of HTTP; what asks for health at a balancer often speaks 1.0, which needs no Host."""


class Phase(Enum):
    """Part of a request that is being received."""

    HEAD = "head"
    BODY = "body"
    WHOLE = "whole"


class RefusedError(Exception):
    """Raised in the parser, which stops it."""


class BoundedConnection(HttpToolsProtocol):
    """Connection of uvicorn's that is looked at every ``check_s``."""

    _warned_at: ClassVar[float] = -math.inf

    def __init__(self, *args: Any, bounds: Bounds = _DEFAULTS, **options: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Wait for the head of a request."""
        super().__init__(*args, **options)
        self._bounds = bounds
        self._phase = Phase.HEAD
        self._since = self.loop.time()
        self._num_bytes = 0
        self._num_bodiless_bytes = 0
        self._chunk_bytes = 0
        self.url = b""
        self._refusal = Refusal.MALFORMED
        self._is_leaving = self._is_discarding = self._is_evicted = False
        self._unsent_bytes, self._unsent_since = 0, self._since
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin, or make room for another connection."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(self._bounds.check_s, self._check)
        if len(self.connections) > self._bounds.connections and not self._make_room():
            self._refuse(Refusal.CROWDED)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, within the bounds of its phase."""
        self._chunk_bytes = len(data)
        self._num_bytes += len(data)
        self._num_bodiless_bytes += len(data)
        if not self._is_discarding:
            super().data_received(data)
        is_done = self._phase is Phase.WHOLE and not self._is_discarding
        if is_done or self.transport.is_closing():
            return
        if self._is_lingering():
            if self._num_bytes > self._bounds.linger_bytes:
                self.transport.close()
        elif self._phase is Phase.HEAD:
            if self._num_bytes > self._bounds.head_bytes or self._is_head_too_large():
                self._refuse(Refusal.HEAD_TOO_LARGE)
        elif self._num_bodiless_bytes > self._bounds.head_bytes:
            # Extensions of chunks and fields behind the last one; neither is read here.
            self._refuse(Refusal.MALFORMED)
        else:
            self._linger()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._enter(Phase.HEAD)

    def on_headers_complete(self) -> None:
        """Hand the request on."""
        if len(self.headers) > self._bounds.headers or self._is_head_too_large():
            self._stop(Refusal.HEAD_TOO_LARGE)
        num_hosts = [name for name, _ in self.headers].count(b"host")
        spoken = self.parser.get_http_version()
        if spoken not in _SPOKEN:
            self._stop(Refusal.MALFORMED)
        if num_hosts > 1 or (num_hosts == 0 and spoken == "1.1"):
            self._stop(Refusal.BAD_HOST)
        if len(self.pipeline) >= self._bounds.pipelined:
            self._stop(Refusal.CROWDED)
        super().on_headers_complete()
        # What comes behind the last chunk is no header of this request, which has its list.
        self.headers = []
        self._enter(Phase.BODY)

    def on_body(self, body: bytes) -> None:
        """Hand a part of the body on."""
        super().on_body(body)
        self._num_bodiless_bytes = 0

    def on_message_complete(self) -> None:
        """Note that the request is whole."""
        super().on_message_complete()
        self._enter(Phase.WHOLE)
        if self._is_leaving:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Note that the request is answered.

        The rest of its body may still come.
        """
        super().on_response_complete()
        self._restart()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the problem says more
        """Refuse what the parser stopped at."""
        self._refuse(self._refusal)

    def is_waiting(self) -> bool:
        """Return whether it is the client's turn."""
        if self._is_evicted or self.transport.is_closing():
            return False
        return self._phase is Phase.BODY or not self._is_answering()

    def evict(self) -> None:
        """Make room for another connection."""
        self._is_evicted = True
        self.transport.abort()

    def _make_room(self) -> bool:
        """Close one that waits, for another.

        It is the one that has waited longest, of the address that has most. Returns whether there
        is one.
        """
        waiting = [
            other
            for other in self.connections
            if isinstance(other, BoundedConnection) and other is not self and other.is_waiting()
        ]
        if not waiting:
            return False
        address, _ = Counter(other.get_address() for other in waiting).most_common(1)[0]
        oldest = min(
            (other for other in waiting if other.get_address() == address),
            key=BoundedConnection.get_since,
        )
        self._warn_of_crowd(address)
        oldest.evict()
        return True

    def _warn_of_crowd(self, address: str | None) -> None:
        now = self.loop.time()
        if now - BoundedConnection._warned_at > _WARNED_EVERY_S:
            BoundedConnection._warned_at = now
            _log.warning("connections.crowded", at_most=self._bounds.connections, peer=address)

    def get_address(self) -> str | None:
        """Return the address of the client."""
        return None if self.client is None else self.client[0]

    def get_since(self) -> float:
        """Return when the client's turn began."""
        return self._since

    def _check(self) -> None:
        """Look whether the client is late, and look again."""
        self._timer = self.loop.call_later(self._bounds.check_s, self._check)
        waited_s = self.loop.time() - self._since
        if self._is_stalled():
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif self._is_lingering():
            if waited_s > self._bounds.linger_s:
                self.transport.close()
        elif not self._is_answering():
            self._check_idle(waited_s)
        elif self._phase is Phase.BODY:
            self._check_body(waited_s)

    def _check_idle(self, waited_s: float) -> None:
        if self._phase is Phase.WHOLE:
            if waited_s > KEEP_ALIVE_S:
                self.transport.close()
        elif waited_s > self._bounds.head_s:
            if self.scope is None:
                # A browser opens connections that it may need; there is no request to refuse.
                self.transport.close()
            else:
                self._refuse(Refusal.LATE)

    def _check_body(self, waited_s: float) -> None:
        if self.flow.read_paused:
            # It is the server that does not read.
            self._since += self._bounds.check_s
        elif waited_s > self._bounds.body_s + self._num_bytes / self._bounds.body_bytes_per_s:
            self._refuse(Refusal.LATE)

    def _is_stalled(self) -> bool:
        """Return whether the client has stopped to read its answer."""
        size, now = self.transport.get_write_buffer_size(), self.loop.time()
        if size == 0 or size <= self._unsent_bytes - self._bounds.stall_bytes:
            self._unsent_since = now
            self._unsent_bytes = size
        self._unsent_bytes = max(self._unsent_bytes, size)
        return now - self._unsent_since > self._bounds.stall_s

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _is_lingering(self) -> bool:
        """Return whether the rest of what was answered is awaited."""
        return self._is_discarding or (self._phase is Phase.BODY and not self._is_answering())

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._restart()

    def _restart(self) -> None:
        self._since = self.loop.time()
        self._num_bytes = self._num_bodiless_bytes = 0

    def _is_head_too_large(self) -> bool:
        """Return whether the head that was read so far exceeds its bound.

        It lies in the last chunk and in what came of this request before: mostly that tells.
        """
        bound = self._bounds.head_bytes
        if self._num_bytes + self._chunk_bytes <= bound:
            return False
        fields = sum(len(name) + len(value) for name, value in self.headers or ())
        return len(self.url) + fields > bound

    def _linger(self) -> None:
        """Let an answer that closes wait for the rest of its request.

        Most requests are whole before their answer begins, and close at once.
        """
        cycle = self.cycle
        if not isinstance(cycle.transport, Lingering):
            close = partial(self._close_after, cycle)
            cycle.transport = cast("asyncio.Transport", Lingering(self.transport, close))

    def _stop(self, refusal: Refusal) -> None:
        self._refusal = refusal
        raise RefusedError(refusal.name)

    def _refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal and read no more.

        Where another answer is due or under way, the client would take it for that one.
        """
        _log.debug("connection.refused", reason=refusal.name.lower(), peer=self.get_address())
        is_behind = bool(self.pipeline) or self._phase is not Phase.BODY
        if self._is_answering() and (is_behind or self.cycle.response_started):
            self.transport.close()
            return
        self.transport.write(refusal.make_answer())
        if self._is_answering():
            # Whoever waits for the rest of the body learns that nobody is there.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._is_discarding = True
        self._enter(self._phase)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def _close_after(self, cycle: RequestResponseCycle) -> None:
        """Close once the client has sent its request, if it still does."""
        if cycle is self.cycle and cycle.response_complete and self._phase is Phase.BODY:
            self._is_leaving = True
        else:
            self.transport.close()
