"""What /metrics shows: requests, fits, doorbell failures of this process, and the jobs and workers of the whole service."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from service.api.learning_metrics import learning_metrics
from service.usecases.accuracy import Learnt
from service.usecases.load import Load

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What is counted when somebody asks, not when it happens."""

    jobs: Mapping[str, int]
    workers: Mapping[str, int]
    load: Load = field(default_factory=Load)
    learnt: Learnt = field(default_factory=Learnt)


class Metrics:
    """The registry of one process; with several processes each answers for itself."""

    def __init__(self, *, take_census: Callable[[], Census | None], doorbell_failures: Callable[[], int]) -> None:
        """Count in a registry of our own; ``take_census`` answers None while the database is away."""
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "headroom_http_requests", "Requests by route and status.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "headroom_http_request_seconds", "Seconds per request.", ("route",), buckets=_BUCKETS, registry=self._registry
        )
        self._fits = Counter("headroom_fits", "Fit questions by verdict.", ("verdict",), registry=self._registry)
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._verdicts: dict[str, Counter] = {}
        self._registry.register(_AtScrape(take_census, doorbell_failures))

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request; 0 is a request that was given up before its answer began."""
        labels = (method if method in _METHODS else "other", route, status)
        found = self._children.get(labels)
        if found is None:
            # Looking a child up in the library takes longer than counting.
            found = self._children[labels] = (self._requests.labels(*labels), self._seconds.labels(route))
        found[0].inc()
        found[1].observe(seconds)

    def count_fit(self, verdict: str, number: int = 1) -> None:
        """Count answered fit questions."""
        child = self._verdicts.get(verdict)
        if child is None:
            child = self._verdicts[verdict] = self._fits.labels(verdict)
        child.inc(number)

    def render(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)


class _AtScrape(Collector):
    def __init__(self, take_census: Callable[[], Census | None], doorbell_failures: Callable[[], int]) -> None:
        self._take_census = take_census
        self._doorbell_failures = doorbell_failures

    def describe(self) -> Iterator[Metric]:
        """Name nothing beforehand: registering must not ask the database."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        failures = self._doorbell_failures()
        yield CounterMetricFamily("headroom_doorbell_failures", "Rings that Redis did not take.", value=failures)
        census = self._take_census()
        yield GaugeMetricFamily("headroom_database_up", "Whether the database answered.", value=float(census is not None))
        if census is None:
            return
        yield _by_state("headroom_jobs", "Measurements by state.", census.jobs)
        yield _by_state("headroom_workers", "Workers by state.", census.workers)
        yield from _load(census.load)
        yield from learning_metrics(census.learnt)


def _load(load: Load) -> Iterator[Metric]:
    oldest = GaugeMetricFamily("headroom_queue_oldest_seconds", "How long the first in a queue has waited.", labels=("device",))
    for device, seconds in load.oldest_s.items():
        oldest.add_metric((device,), seconds)
    yield oldest
    yield CounterMetricFamily(
        "headroom_leases_lost", "Attempts whose worker was not heard of for a lease.", value=load.lost_leases
    )


def _by_state(name: str, text: str, counts: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=("state",))
    for state, count in counts.items():
        family.add_metric((state,), count)
    return family
