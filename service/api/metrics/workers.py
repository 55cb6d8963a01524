"""What /metrics shows of workers: how many do what, and each that was heard of in the last hour.

A worker's name is fresh at each start. Only those that were not stopped and were heard of within ``TOLD_S`` have series of
their own, ``MAX_TOLD`` of them at most, so that a scrape stays bounded however many came and went.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from prometheus_client.core import GaugeMetricFamily, Metric

from service.jobs.contract import ProbeDevice
from service.usecases.jobs.workers import SeenWorker, WorkerState

TOLD_S = 3600.0
MAX_TOLD = 500
_EACH = ("worker", "host", "device")


def worker_metrics(workers: Sequence[SeenWorker]) -> Iterator[Metric]:
    """Yield every metric; ``workers`` come with the latest heartbeat first."""
    yield _by_state(workers)
    told = [one for one in workers if one.state is not WorkerState.STOPPED and one.heartbeat_age_s <= TOLD_S][:MAX_TOLD]
    yield _info(told)
    yield _each(
        told, "heartbeat_age_seconds", "Seconds since it was heard of.", {one.name: one.heartbeat_age_s for one in told}
    )
    yield _each(told, "busy", "Whether it runs a job.", {one.name: float(one.state is WorkerState.BUSY) for one in told})
    memory = {one.name: _number(_device(one).get("memory_bytes")) for one in told}
    yield _each(told, "memory_bytes", "Memory of its GPU, or of its machine where it has none.", memory)
    used = {one.name: _number((one.observed or {}).get("used_bytes")) for one in told}
    yield _each(told, "gpu_used_bytes", "Memory of its GPU that was in use when it last looked while idle.", used)
    foreign = {one.name: _number((one.observed or {}).get("foreign_processes")) for one in told}
    yield _each(told, "foreign_processes", "Processes of others on its GPU when it last looked while idle.", foreign)


def _by_state(workers: Sequence[SeenWorker]) -> Metric:
    states = [state.value for state in WorkerState]
    counts = Counter(dict.fromkeys(product((device.value for device in ProbeDevice), states), 0))
    counts.update((_device_word(one), one.state.value) for one in workers)
    family = GaugeMetricFamily("headroom_workers", "Workers of the last day by device and state.", labels=("device", "state"))
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def _info(workers: Sequence[SeenWorker]) -> Metric:
    words = ("gpu", "uuid", "driver", "torch", "version")
    family = GaugeMetricFamily("headroom_worker_info", "What a worker works on and with; always 1.", labels=(*_EACH, *words))
    for one in workers:
        device = _device(one)
        gpu = (device.get("sku") or device.get("name") or "") if _device_word(one) == ProbeDevice.CUDA else ""
        known = (gpu, device.get("uuid"), device.get("driver"), one.versions.get("torch"), one.versions.get("gpu-headroom"))
        family.add_metric((*_labels(one), *(str(value or "") for value in known)), 1.0)
    return family


def _each(workers: Sequence[SeenWorker], name: str, text: str, values: Mapping[str, float | None]) -> Metric:
    family = GaugeMetricFamily(f"headroom_worker_{name}", text, labels=_EACH)
    for one in workers:
        value = values[one.name]
        if value is not None:
            family.add_metric(_labels(one), value)
    return family


def _labels(worker: SeenWorker) -> tuple[str, str, str]:
    return worker.name, worker.host, _device_word(worker)


def _device(worker: SeenWorker) -> Mapping[str, object]:
    return worker.devices[0] if worker.devices else {}


def _device_word(worker: SeenWorker) -> str:
    return str(_device(worker).get("device", ""))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
