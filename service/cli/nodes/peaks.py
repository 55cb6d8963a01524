"""Peaks of pods on a node's GPUs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from service.formats.measured.reading import Parsed, Reading

MAX_ENDED = 1000
"""Pods that wait to be told of while the server is away; of more, the oldest are dropped."""
SETTLING = timedelta(seconds=60)
"""How long a pod's first numbers may be those of who had the GPU before.

The exporter asks who has a GPU when it shows what DCGM counted, which is up to one of its rounds
old: 30 seconds, and as much again for its page.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPeak:
    """The most that was on one GPU."""

    uuid: str
    gpu: str | None
    name: str | None
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPeaks:
    """A pod's GPUs, as often as somebody looked since it had settled.

    ``is_shared`` says that one of its GPUs was another pod's too, so that nothing was counted of it
    alone.
    """

    namespace: str
    name: str
    host: str | None
    driver: str | None
    since: datetime
    until: datetime
    num_looks: int
    gpus: tuple[GpuPeak, ...]
    is_shared: bool

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Running pods of a node, and ended ones that wait."""

    running: tuple[PodPeaks, ...] = ()
    ended: tuple[PodPeaks, ...] = ()


def look(record: Record, page: Parsed, at: datetime, patience: timedelta) -> Record:
    """Return a record after one more page of the DCGM exporter.

    A pod has ended once it is on no page for as long as ``patience``: the exporter loses sight of
    pods now and then.
    """
    running = {pod.key: pod for pod in record.running}
    for pod in _list_pods(page, at):
        before = running.get(pod.key)
        running[pod.key] = _merge(before or _begin(pod), pod)
    ended = [pod for pod in running.values() if at - pod.until >= patience]
    countable = [
        pod for pod in ended if any(gpu.peak_bytes for gpu in pod.gpus) and not pod.is_shared
    ]
    return Record(
        running=tuple(pod for pod in running.values() if pod not in ended),
        ended=(*record.ended, *countable)[-MAX_ENDED:],
    )


def _list_pods(page: Parsed, at: datetime) -> list[PodPeaks]:
    by_job: dict[tuple[str, str], list[Reading]] = {}
    owners: dict[str, set[tuple[str, str]]] = {}
    for reading in page.readings:
        place = reading.place
        namespace, slash, name = (place.job or "").partition("/")
        # A part of a GPU (MIG) is another product than the page says.
        if slash and place.gpu_uuid is not None and place.process is None:
            by_job.setdefault((namespace, name), []).append(reading)
            owners.setdefault(place.gpu_uuid, set()).add((namespace, name))
    return [
        _make_pod(key, readings, owners, at, driver=page.environment.get("driver"))
        for key, readings in by_job.items()
    ]


def _make_pod(
    key: tuple[str, str],
    readings: Sequence[Reading],
    owners: Mapping[str, set[tuple[str, str]]],
    at: datetime,
    *,
    driver: str | None,
) -> PodPeaks:
    gpus = _keep_highest(
        GpuPeak(
            uuid=str(reading.place.gpu_uuid),
            gpu=reading.place.gpu,
            name=reading.place.gpu_name,
            peak_bytes=reading.value,
        )
        for reading in readings
    )
    return PodPeaks(
        namespace=key[0],
        name=key[1],
        host=readings[0].place.host,
        driver=driver,
        since=at,
        until=at,
        num_looks=1,
        gpus=gpus,
        is_shared=any(len(owners[gpu.uuid]) > 1 for gpu in gpus),
    )


def _begin(pod: PodPeaks) -> PodPeaks:
    return replace(pod, num_looks=0, gpus=())


def _merge(before: PodPeaks, now: PodPeaks) -> PodPeaks:
    merged = replace(before, until=now.until, is_shared=before.is_shared or now.is_shared)
    if now.until - before.since < SETTLING:
        return merged
    gpus = _keep_highest((*before.gpus, *now.gpus))
    return replace(merged, num_looks=before.num_looks + 1, gpus=gpus)


def _keep_highest(gpus: Iterable[GpuPeak]) -> tuple[GpuPeak, ...]:
    highest: dict[str, GpuPeak] = {}
    for gpu in gpus:
        current = highest.get(gpu.uuid)
        if current is None or gpu.peak_bytes > current.peak_bytes:
            highest[gpu.uuid] = gpu
    return tuple(highest.values())
