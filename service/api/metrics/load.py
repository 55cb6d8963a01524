"""What /metrics shows of jobs and the queue. Labels are words of ours: devices, states, priorities, kinds of problems."""

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


def load_metrics(load: Load) -> Iterator[Metric]:
    """Yield every metric; what there is none of is told as zero, so that a rule need not know what it has never seen."""
    probed = [one for one in load.jobs if one.source == "probe"]
    yield _jobs(probed)
    yield _imported(load.jobs)
    yield from _queue(load)
    yield from _attempts(probed)
    yield _failures(probed)
    expired = GaugeMetricFamily("headroom_expired_leases", "Running jobs that a reconcile loop should have taken back.")
    expired.add_metric((), load.expired_leases)
    yield expired


def _jobs(probed: Iterable[JobCount]) -> Metric:
    counts = Counter(dict.fromkeys(product(_DEVICES, (status.value for status in Status)), 0))
    for one in probed:
        counts[one.device, one.state] += one.jobs
    family = GaugeMetricFamily("headroom_jobs", "Measurements by device and state.", labels=("device", "state"))
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def _imported(jobs: Iterable[JobCount]) -> Metric:
    family = GaugeMetricFamily("headroom_imported_measurements", "Measurements that somebody else took.")
    family.add_metric((), sum(one.jobs for one in jobs if one.source == "import"))
    return family


def _queue(load: Load) -> Iterator[Metric]:
    found = {(one.device, _PRIORITIES.get(one.weight, str(one.weight))): one for one in load.queue}
    waiting = GaugeMetricFamily("headroom_queue_jobs", "Jobs that wait.", labels=("device", "priority"))
    oldest = GaugeMetricFamily(
        "headroom_queue_oldest_seconds", "How long the first in a queue has waited.", labels=("device", "priority")
    )
    for labels in dict.fromkeys((*product(_DEVICES, _PRIORITIES.values()), *found)):
        one = found.get(labels)
        waiting.add_metric(labels, 0 if one is None else one.jobs)
        oldest.add_metric(labels, 0.0 if one is None else one.oldest_s)
    yield waiting
    yield oldest


def _attempts(probed: Iterable[JobCount]) -> Iterator[Metric]:
    counters = {
        "attempts": ("headroom_attempts", "Attempts at measurements."),
        "retries": ("headroom_retries", "Of these, those after the first at a measurement."),
        "lost_leases": ("headroom_leases_lost", "Attempts whose worker was not heard of for a lease."),
    }
    for field, (name, text) in counters.items():
        counts = Counter(dict.fromkeys(_DEVICES, 0))
        for one in probed:
            counts[one.device] += getattr(one, field)
        family = CounterMetricFamily(name, text, labels=("device",))
        for device, count in counts.items():
            family.add_metric((device,), count)
        yield family


def _failures(probed: Iterable[JobCount]) -> Metric:
    counts: Counter[tuple[str, str]] = Counter()
    for one in probed:
        if one.state == Status.FAILED:
            counts[one.device, one.reason or "unknown"] += one.jobs
    family = CounterMetricFamily(
        "headroom_failed_jobs", "Measurements that failed, by the type of their problem.", labels=("device", "reason")
    )
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family
