"""Job and queue metrics.

Labels have a fixed vocabulary: devices, states, priorities, kinds of problems.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from service.jobs.contract import Priority, ProbeDevice
from service.jobs.states import Status
from service.usecases.operations.load import Load
from service.usecases.stored import JobCount

_DEVICES = tuple(device.value for device in ProbeDevice)
_PRIORITIES = {-1: Priority.LOW.value, 0: Priority.NORMAL.value, 1: Priority.HIGH.value}


def collect_load_metrics(load: Load) -> Iterator[Metric]:
    """Yield every metric.

    What there is none of is reported as zero, so that a rule need not know what it has never seen.
    """
    probed = [row for row in load.jobs if row.source == "probe"]
    yield _build_jobs_gauge(probed)
    yield _build_imported_gauge(load.jobs)
    yield _build_recordings_gauge(load.jobs)
    yield from _collect_queue(load)
    yield from _collect_attempts(probed)
    yield _build_failures_counter(probed)
    expired = GaugeMetricFamily(
        "headroom_expired_leases", "Running jobs that a reconcile loop should have taken back."
    )
    expired.add_metric((), load.expired_leases)
    yield expired


def _build_jobs_gauge(probed: Iterable[JobCount]) -> Metric:
    counts = Counter(dict.fromkeys(product(_DEVICES, (status.value for status in Status)), 0))
    for row in probed:
        counts[row.device, row.state] += row.jobs
    family = GaugeMetricFamily(
        "headroom_jobs", "Measurements by device and state.", labels=("device", "state")
    )
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def _build_imported_gauge(jobs: Iterable[JobCount]) -> Metric:
    family = GaugeMetricFamily(
        "headroom_imported_measurements", "Measurements that somebody else took."
    )
    family.add_metric((), sum(row.jobs for row in jobs if row.source == "import"))
    return family


def _build_recordings_gauge(jobs: Iterable[JobCount]) -> Metric:
    counts = Counter(dict.fromkeys((status.value for status in Status), 0))
    for row in jobs:
        if row.source == "recording":
            counts[row.state] += row.jobs
    family = GaugeMetricFamily(
        "headroom_recordings", "Recordings of models by state.", labels=("state",)
    )
    for state, count in counts.items():
        family.add_metric((state,), count)
    return family


def _collect_queue(load: Load) -> Iterator[Metric]:
    rows = {(row.device, _PRIORITIES.get(row.weight, str(row.weight))): row for row in load.queue}
    waiting = GaugeMetricFamily(
        "headroom_queue_jobs", "Jobs that wait.", labels=("device", "priority")
    )
    oldest = GaugeMetricFamily(
        "headroom_queue_oldest_seconds",
        "How long the first in a queue has waited.",
        labels=("device", "priority"),
    )
    for labels in dict.fromkeys((*product(_DEVICES, _PRIORITIES.values()), *rows)):
        row = rows.get(labels)
        waiting.add_metric(labels, 0 if row is None else row.jobs)
        oldest.add_metric(labels, 0.0 if row is None else row.oldest_s)
    yield waiting
    yield oldest


def _collect_attempts(probed: Iterable[JobCount]) -> Iterator[Metric]:
    counters = {
        "attempts": ("headroom_attempts", "Attempts at measurements."),
        "retries": ("headroom_retries", "Of these, those after the first at a measurement."),
        "lost_leases": (
            "headroom_leases_lost",
            "Attempts whose worker was not heard of for a lease.",
        ),
    }
    for field, (name, text) in counters.items():
        counts = Counter(dict.fromkeys(_DEVICES, 0))
        for row in probed:
            counts[row.device] += getattr(row, field)
        family = CounterMetricFamily(name, text, labels=("device",))
        for device, count in counts.items():
            family.add_metric((device,), count)
        yield family


def _build_failures_counter(probed: Iterable[JobCount]) -> Metric:
    counts: Counter[tuple[str, str]] = Counter()
    for row in probed:
        if row.state == Status.FAILED:
            counts[row.device, row.reason or "unknown"] += row.jobs
    family = CounterMetricFamily(
        "headroom_failed_jobs",
        "Measurements that failed, by the type of their problem.",
        labels=("device", "reason"),
    )
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family
