"""Worker metrics: counts by state, and recent workers.

Recent are those that were seen in the last hour.

A worker's name is fresh at each start. Only those that were not stopped and were heard of within
``RECENT_S`` have series of their own, ``MAX_SERIES`` of them at most, so that a scrape stays
bounded however many came and went.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from prometheus_client.core import GaugeMetricFamily, Metric

from service.jobs.contract import ProbeDevice
from service.usecases.jobs.workers import WorkerState, WorkerSummary

RECENT_S = 3600.0
MAX_SERIES = 500
_LABELS = ("worker", "host", "device")


def collect_worker_metrics(workers: Sequence[WorkerSummary]) -> Iterator[Metric]:
    """Yield every metric.

    ``workers`` come with the latest heartbeat first.
    """
    yield _count_by_state(workers)
    recent = [
        worker
        for worker in workers
        if worker.state is not WorkerState.STOPPED and worker.heartbeat_age_s <= RECENT_S
    ][:MAX_SERIES]
    yield _build_info(recent)
    yield _build_gauge(
        recent,
        "heartbeat_age_seconds",
        "Seconds since it was heard of.",
        {worker.name: worker.heartbeat_age_s for worker in recent},
    )
    yield _build_gauge(
        recent,
        "busy",
        "Whether it runs a job.",
        {worker.name: float(worker.state is WorkerState.BUSY) for worker in recent},
    )
    memory = {worker.name: _to_number(_get_device(worker).get("memory_bytes")) for worker in recent}
    yield _build_gauge(
        recent, "memory_bytes", "Memory of its GPU, or of its machine where it has none.", memory
    )
    used = {worker.name: _to_number((worker.observed or {}).get("used_bytes")) for worker in recent}
    yield _build_gauge(
        recent,
        "gpu_used_bytes",
        "Memory of its GPU that was in use when it last looked while idle.",
        used,
    )
    foreign = {
        worker.name: _to_number((worker.observed or {}).get("foreign_processes"))
        for worker in recent
    }
    yield _build_gauge(
        recent,
        "foreign_processes",
        "Processes of others on its GPU when it last looked while idle.",
        foreign,
    )


def _count_by_state(workers: Sequence[WorkerSummary]) -> Metric:
    states = [state.value for state in WorkerState]
    counts = Counter(dict.fromkeys(product((device.value for device in ProbeDevice), states), 0))
    counts.update((_get_device_kind(worker), worker.state.value) for worker in workers)
    family = GaugeMetricFamily(
        "headroom_workers",
        "Workers of the last day by device and state.",
        labels=("device", "state"),
    )
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def _build_info(workers: Sequence[WorkerSummary]) -> Metric:
    label_names = ("gpu", "uuid", "driver", "torch", "version")
    family = GaugeMetricFamily(
        "headroom_worker_info",
        "What a worker works on and with; always 1.",
        labels=(*_LABELS, *label_names),
    )
    for worker in workers:
        device = _get_device(worker)
        gpu = (
            (device.get("sku") or device.get("name") or "")
            if _get_device_kind(worker) == ProbeDevice.CUDA
            else ""
        )
        values = (
            gpu,
            device.get("uuid"),
            device.get("driver"),
            worker.versions.get("torch"),
            worker.versions.get("gpu-headroom"),
        )
        family.add_metric((*_get_labels(worker), *(str(value or "") for value in values)), 1.0)
    return family


def _build_gauge(
    workers: Sequence[WorkerSummary], name: str, text: str, values: Mapping[str, float | None]
) -> Metric:
    family = GaugeMetricFamily(f"headroom_worker_{name}", text, labels=_LABELS)
    for worker in workers:
        value = values[worker.name]
        if value is not None:
            family.add_metric(_get_labels(worker), value)
    return family


def _get_labels(worker: WorkerSummary) -> tuple[str, str, str]:
    return worker.name, worker.host, _get_device_kind(worker)


def _get_device(worker: WorkerSummary) -> Mapping[str, object]:
    return worker.devices[0] if worker.devices else {}


def _get_device_kind(worker: WorkerSummary) -> str:
    return str(_get_device(worker).get("device", ""))


def _to_number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
