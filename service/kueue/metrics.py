"""Metrics of the controller, in Prometheus' format."""

from collections.abc import Iterable
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    make_wsgi_app,
)
from prometheus_client.exposition import ThreadingWSGIServer

from service.kueue.pulse import DEAD_S, Pulse

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counters of one process."""

    def __init__(self) -> None:
        """Register every metric in a registry of its own."""
        self.registry = CollectorRegistry()
        self._decisions = Counter(
            "headroom_kueue_decisions",
            "Decisions about jobs that Kueue holds.",
            ("door", "verdict", "action"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "headroom_kueue_seconds",
            "Seconds from looking at an object to its decision being stored.",
            ("door",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._leads = Gauge(
            "headroom_kueue_leads", "1 where this replica acts.", registry=self.registry
        )
        self._leads.set(0)

    def count(self, door: str, verdict: str, action: str, seconds: float) -> None:
        """Count a decision."""
        self._decisions.labels(door, verdict, action).inc()
        self._seconds.labels(door).observe(seconds)

    def set_leads(self, leads: bool) -> None:  # noqa: FBT001 - a callback of one flag
        """Set whether this replica acts."""
        self._leads.set(int(leads))

    def serve(self, host: str, port: int, pulse: Pulse) -> int:
        """Serve ``/metrics`` and ``/livez`` in a thread; return the port."""
        # The series that say when a counter began double their number.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library annotates half of itself
        show_metrics = make_wsgi_app(self.registry)

        def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
            if environ["PATH_INFO"] == "/livez":
                return _answer_probe(pulse, start)
            shown: Iterable[bytes] = show_metrics(environ, start)
            return shown

        server = make_server(host, port, answer, ThreadingWSGIServer, handler_class=_SilentHandler)
        Thread(target=server.serve_forever, daemon=True, name="metrics").start()
        return int(server.server_port)


class _SilentHandler(WSGIRequestHandler):
    """Handler that logs no request."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log nothing."""


def _answer_probe(pulse: Pulse, start: StartResponse) -> Iterable[bytes]:
    silence_s = pulse.count_silence_s()
    is_alive = silence_s < DEAD_S
    status = "200 OK" if is_alive else "503 Service Unavailable"
    start(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [b"ok\n" if is_alive else f"no beat for {silence_s:.0f} s\n".encode()]
