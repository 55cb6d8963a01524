"""Metrics of /metrics: this server's counters and the database's snapshot.

With several processes the library keeps their counters in files that all of them read
(``PROMETHEUS_MULTIPROC_DIR``), so that whichever process answers a scrape tells of all, and no
counter ever seems to go back.
"""

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from service.api.metrics.learning import collect_learning_metrics
from service.api.metrics.load import collect_load_metrics
from service.api.metrics.workers import collect_worker_metrics
from service.usecases.operations.metrics_snapshot import MetricsReading

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)
_REFUSALS = {401: "unauthenticated", 403: "forbidden", 429: "throttled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildInfo:
    """Version of this program and of its schema."""

    version: str = ""
    schema: str = ""


class Metrics:
    """Counters of one process.

    With ``shared_dir``, of all processes that have the same directory.
    """

    def __init__(self, *, build: BuildInfo | None = None, shared_dir: Path | None = None) -> None:
        """Start a registry with all counters at zero."""
        self._shared_dir = shared_dir
        self._registry = CollectorRegistry()
        self._build = build or BuildInfo()
        self._requests = self._make_counter(
            "http_requests", "Requests by route and status.", "method", "route", "status"
        )
        self._seconds = Histogram(
            "headroom_http_request_seconds",
            "Seconds per request.",
            ("route",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._refused = self._make_counter(
            "refused_requests", "Requests that keys or their limits did not let in.", "reason"
        )
        self._fits = self._make_counter("fits", "Fit questions by verdict.", "verdict")
        self._cached_fits = self._make_counter(
            "cached_fits", "Of these, those whose answer was finished before."
        )
        self._cached_searches, self._shared_searches = self._make_repeated_series()
        self._answer_cache = self._make_gauge(
            "answer_cache_bytes", "Bytes of finished answers to fit questions that are kept."
        )
        self._search_cache = self._make_gauge(
            "search_cache_bytes", "Bytes of finished answers of searches that are kept."
        )
        self._resident, self._emptied_caches = self._make_memory_series()
        self._cache_values, self._cache_bytes = self._make_cache_series()
        self._layouts = self._make_counter(
            "searched_layouts", "Layouts that searches considered.", "question"
        )
        self._estimated = self._make_counter(
            "estimated_layouts", "Of these, those that were worked out in full.", "question"
        )
        self._hooks = self._make_counter(
            "hook_decisions", "Decisions about submitted jobs.", "door", "verdict", "action"
        )
        self._hook_seconds = Histogram(
            "headroom_hook_seconds",
            "Seconds per decision about a submitted job.",
            ("door",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._lost_decisions = self._make_counter(
            "lost_hook_decisions", "Of these, those that were not written down."
        )
        self._failed_notifications = self._make_counter(
            "doorbell_failures", "Rings that Redis did not take."
        )
        self._failed_search_processes = self._make_counter(
            "failed_search_processes", "Searches that no process beside the server answered."
        )
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._verdicts: dict[str, Counter] = {}
        self._answer_bytes = -1

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request.

        Status 0 is a request that was given up before its answer began.
        """
        labels = (method if method in _METHODS else "other", route, status)
        child = self._children.get(labels)
        if child is None:
            # Looking a child up in the library takes longer than counting.
            child = self._children[labels] = (
                self._requests.labels(*labels),
                self._seconds.labels(route),
            )
        child[0].inc()
        child[1].observe(seconds)
        if status in _REFUSALS:
            self._refused.labels(_REFUSALS[status]).inc()

    def count_fit(self, verdict: str, number: int = 1) -> None:
        """Count answered fit questions."""
        child = self._verdicts.get(verdict)
        if child is None:
            child = self._verdicts[verdict] = self._fits.labels(verdict)
        child.inc(number)

    def count_hook(self, door: str, verdict: str, action: str, seconds: float) -> None:
        """Count a decision about a submitted job."""
        self._hooks.labels(door, verdict, action).inc()
        self._hook_seconds.labels(door).observe(seconds)

    def count_lost_decisions(self, number: int) -> None:
        """Count decisions that are in no log."""
        self._lost_decisions.inc(number)

    def count_cached_fit(self) -> None:
        """Count a fit question whose answer was finished before."""
        self._cached_fits.inc()

    def count_cached_search(self, question: str) -> None:
        """Count a search whose answer was finished before."""
        self._cached_searches.labels(question).inc()

    def count_shared_search(self, question: str) -> None:
        """Count a search that another asker began."""
        self._shared_searches.labels(question).inc()

    def set_answer_cache_bytes(self, num_bytes: int) -> None:
        """Set the bytes of answers to fit questions that this process keeps."""
        # Most answers are not kept: setting takes longer than comparing.
        if num_bytes != self._answer_bytes:
            self._answer_bytes = num_bytes
            self._answer_cache.set(num_bytes)

    def set_search_cache_bytes(self, num_bytes: int) -> None:
        """Set the bytes of answers of searches that this process keeps."""
        self._search_cache.set(num_bytes)

    def set_resident_bytes(self, num_bytes: int) -> None:
        """Set the memory that this process has."""
        self._resident.set(num_bytes)

    def set_cache(self, name: str, num_values: int, num_bytes: int) -> None:
        """Set how much a cache of this process keeps."""
        self._cache_values.labels(name).set(num_values)
        self._cache_bytes.labels(name).set(num_bytes)

    def count_emptied_caches(self) -> None:
        """Count a process that forgot what it kept."""
        self._emptied_caches.inc()

    def count_search(self, question: str, *, layouts: int, estimated: int) -> None:
        """Count the layouts of one search.

        Those considered, and those of them that were worked out in full.
        """
        self._layouts.labels(question).inc(layouts)
        self._estimated.labels(question).inc(estimated)

    def count_failed_notification(self) -> None:
        """Count a notification that Redis did not take."""
        self._failed_notifications.inc()

    def count_failed_search_process(self) -> None:
        """Count a search that no process beside the server answered."""
        self._failed_search_processes.inc()

    def render(self, reading: MetricsReading) -> bytes:
        """Return all metrics in Prometheus' text format.

        The counters, and what the servers answered.
        """
        counter_registry = self._registry
        if self._shared_dir is not None:
            # Made anew for each scrape, as the library says: it reads the files of processes that
            # came meanwhile.
            _remove_dead_gauges(self._shared_dir)
            counter_registry = CollectorRegistry()
            MultiProcessCollector(counter_registry, path=str(self._shared_dir))  # type: ignore[no-untyped-call]  # half annotated
        snapshot_registry = CollectorRegistry()
        snapshot_registry.register(_SnapshotCollector(reading, self._build))
        return generate_latest(counter_registry) + generate_latest(snapshot_registry)

    def _make_repeated_series(self) -> tuple[Counter, Counter]:
        cached = self._make_counter(
            "cached_searches", "Searches whose answer was finished before.", "question"
        )
        return cached, self._make_counter(
            "shared_searches", "Searches that were computed for another who asked.", "question"
        )

    def _make_memory_series(self) -> tuple[Gauge, Counter]:
        resident = self._make_gauge("resident_bytes", "Memory of the processes that answer.")
        return resident, self._make_counter(
            "emptied_caches", "Times that a process forgot what it kept, having grown too large."
        )

    def _make_cache_series(self) -> tuple[Gauge, Gauge]:
        values = self._make_gauge("cache_values", "Values that are kept.", "cache")
        return values, self._make_gauge(
            "cache_bytes", "Bytes of values that are kept, told by samples.", "cache"
        )

    def _make_gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(
            f"headroom_{name}",
            text,
            labels,
            registry=self._registry,
            multiprocess_mode="livesum",
        )

    def _make_counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"headroom_{name}", text, labels, registry=self._registry)


def _remove_dead_gauges(shared_dir: Path) -> None:
    """Remove the gauges of processes that have ended."""
    for file in shared_dir.glob("gauge_live*_*.db"):
        number = int(file.stem.rpartition("_")[2])
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            mark_process_dead(number, str(shared_dir))  # type: ignore[no-untyped-call]  # half annotated


class _SnapshotCollector(Collector):
    def __init__(self, reading: MetricsReading, build: BuildInfo) -> None:
        self._reading = reading
        self._build = build

    def collect(self) -> Iterator[Metric]:
        yield _build_gauge(
            "headroom_build_info",
            "What runs here; always 1.",
            1.0,
            version=self._build.version,
            schema=self._build.schema,
            python=platform.python_version(),
        )
        reading = self._reading
        snapshot = reading.snapshot
        yield _build_gauge(
            "headroom_database_up", "Whether the database answered.", float(snapshot is not None)
        )
        yield _build_gauge(
            "headroom_census_seconds",
            "How long the servers took to tell what they know.",
            reading.seconds,
        )
        if reading.redis_up is not None:
            yield _build_gauge(
                "headroom_redis_up", "Whether Redis answered.", float(reading.redis_up)
            )
        if snapshot is None:
            return
        yield from collect_load_metrics(snapshot.load)
        yield from collect_worker_metrics(snapshot.workers)
        yield from collect_learning_metrics(snapshot.learnt)


def _build_gauge(name: str, text: str, value: float, **labels: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=tuple(labels))
    family.add_metric(tuple(labels.values()), value)
    return family
