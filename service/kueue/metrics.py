"""Metrics of the controller, in Prometheus' format."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    start_http_server,
)

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

    def serve(self, host: str, port: int) -> int:
        """Serve ``/metrics`` in a thread; return the port."""
        # The series that say when a counter began double their number.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library annotates half of itself
        server, _ = start_http_server(port, addr=host, registry=self.registry)
        return int(server.server_port)
