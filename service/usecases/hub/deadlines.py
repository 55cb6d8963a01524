"""Connections whose every byte comes before a deadline.

A client's timeouts begin anew with each byte: a host that sends one every few seconds would hold a
thread for as long as it likes.
"""

import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Any

import httpcore
import httpx

_END: ContextVar[float] = ContextVar("end_of_requests", default=inf)


@contextmanager
def limit_requests(end: float) -> Iterator[None]:
    """End every request of a block by ``end``, monotonic seconds."""
    token = _END.set(end)
    try:
        yield
    finally:
        _END.reset(token)


class TimedTransport(httpx.HTTPTransport):
    """Plain connections without a proxy, held to ``limit_requests``."""

    def __init__(self, backend: httpcore.NetworkBackend | None = None) -> None:
        """Connect by ``backend``, by default sockets."""
        # Of SSL_CERT_FILE too: a mirror's certificate may be of a company's own authority.
        context = httpx.create_ssl_context()
        super().__init__(verify=context, retries=0)
        # httpx hands a backend on to nothing, and httpcore asks one for every connection.
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            network_backend=_TimedBackend(backend or httpcore.SyncBackend()),
        )


class _TimedBackend(httpcore.NetworkBackend):
    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        limit = _limit(timeout, httpcore.ConnectTimeout)
        stream = self._inner.connect_tcp(host, port, limit, local_address, socket_options)
        return _TimedStream(stream)


class _TimedStream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _limit(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _limit(timeout, httpcore.WriteTimeout))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        limit = _limit(timeout, httpcore.ConnectTimeout)
        return _TimedStream(self._inner.start_tls(ssl_context, server_hostname, limit))

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - httpcore's own
        return self._inner.get_extra_info(info)


def _limit(timeout: float | None, error: type[httpcore.TimeoutException]) -> float | None:
    """Return the seconds that are left, at most ``timeout``.

    Raises ``error`` where none are.
    """
    left = _END.get() - time.monotonic()
    if left <= 0:
        message = "the time of all requests is over"
        raise error(message)
    return timeout if left == inf else min(left, inf if timeout is None else timeout)
