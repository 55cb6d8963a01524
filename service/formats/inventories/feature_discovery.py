"""GPUs of a Kubernetes node, from the labels of GPU feature discovery.

k8s-device-plugin, internal/lm: with the MIG strategy ``single`` the slices take the place of the
GPUs in ``nvidia.com/gpu.*``, with ``mixed`` they have labels of their own beside them; shared GPUs
are ``-SHARED``, and their memory is that of the card.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from service.formats.gpu_requests.kubernetes_quantities import read_quantity
from service.formats.gpu_requests.pod_products import (
    AMD,
    GPU,
    MIG,
    PRODUCT_LABELS,
    SHARED,
    SHARED_SUFFIX,
)
from service.formats.inventories.documents import Json, get_count, get_mebibytes, get_text
from service.formats.inventories.hami import REGISTER, SharedGpu, read_register
from service.formats.inventories.observed import (
    MAX_GPUS,
    InventoryFormatError,
    ObservedGpus,
    ObservedSlices,
    ObservedUse,
)
from service.formats.inventories.pods import PodUse

UNHEALTHY = "not allocatable"
MPS = "shared by MPS"
_MIG_INFIX = "-MIG-"
_INVALID = "INVALID"
_MIXED = re.compile(r"nvidia\.com/mig-([0-9]g\.[0-9]{1,3}gb)(?:\.[a-z.]{1,12})?\.count", re.ASCII)


def read_gpus(
    metadata: tuple[Json, Json], status: tuple[Json, Json], pods: Sequence[PodUse]
) -> tuple[ObservedGpus, ...]:
    """Return the GPUs of a node; ``metadata`` are its labels and annotations.

    ``status`` is its capacity, and what of it can be given out.
    """
    labels, annotations = metadata
    shared = read_register(get_text(annotations, REGISTER))
    if shared:
        return _read_shared(shared, labels, pods)
    product = get_text(labels, PRODUCT_LABELS[0])
    if _MIG_INFIX in product:
        return _read_single(product, labels, status, pods)
    return _read_whole(labels, status, pods)


def _read_whole(
    labels: Json, status: tuple[Json, Json], pods: Sequence[PodUse]
) -> tuple[ObservedGpus, ...]:
    capacity, allocatable = status
    name = next((text for label in PRODUCT_LABELS if (text := get_text(labels, label))), "")
    resource = next((key for key in (GPU, SHARED, AMD) if _amount(capacity, key)), GPU)
    replicas = max(get_count(labels, f"{GPU}.replicas") or 1, 1)
    slices = tuple(_iter_slices(labels, capacity, pods))
    offered = _amount(capacity, resource) // replicas
    labelled = get_count(labels, f"{GPU}.count") or 0
    # With slices beside them the label counts the cut GPUs too, and the plugin offers the others.
    count = offered if slices else max(offered, labelled)
    if not count and not slices:
        return ()
    _check_count(max(count, labelled))
    usable = _amount(allocatable, resource) // replicas
    is_mps = get_text(labels, f"{GPU}.sharing-strategy") == "mps"
    gpus = ObservedGpus(
        name=name.removesuffix(SHARED_SUFFIX) or resource,
        count=count,
        memory_bytes=get_mebibytes(labels, f"{GPU}.memory"),
        used=(ObservedUse(holder=MPS, num_gpus=count),)
        if is_mps
        else tuple(_iter_uses(count, usable, resource, pods, is_shared=replicas > 1)),
        slices=slices,
        mig_gpus=max(labelled - count, 1) if slices else 0,
        replicas=replicas,
    )
    return (gpus,)


def _read_single(
    product: str, labels: Json, status: tuple[Json, Json], pods: Sequence[PodUse]
) -> tuple[ObservedGpus, ...]:
    name, _, profile = product.removesuffix(SHARED_SUFFIX).partition(_MIG_INFIX)
    replicas = max(get_count(labels, f"{GPU}.replicas") or 1, 1)
    total = _amount(status[0], GPU) // replicas or get_count(labels, f"{GPU}.count") or 0
    if profile == _INVALID or not total:
        return ()
    missing = max(total - _amount(status[1], GPU) // replicas, 0)
    used = sum(use.resources.get(GPU, 0) for use in pods)
    slices = ObservedSlices(
        profile=re.sub(r"[.+-](?:me|gfx|all).*$", "", profile),
        total=total,
        used=min(used + missing, total),
    )
    return (ObservedGpus(name=name, count=0, slices=(slices,), mig_gpus=None, replicas=replicas),)


def _read_shared(
    shared: Sequence[SharedGpu], labels: Json, pods: Sequence[PodUse]
) -> tuple[ObservedGpus, ...]:
    """Return HAMi's GPUs; one with any pod on it is used."""
    _check_count(len(shared))
    by_name: dict[str, list[SharedGpu]] = {}
    for gpu in shared:
        by_name.setdefault(gpu.name, []).append(gpu)
    labelled = get_mebibytes(labels, f"{GPU}.memory") if len(by_name) == 1 else None
    return tuple(
        ObservedGpus(
            # It writes NVIDIA-NVIDIA A100-SXM4-80GB: the vendor, then NVML's name.
            name=name.removeprefix("NVIDIA-") if name.startswith("NVIDIA-NVIDIA") else name,
            count=len(gpus),
            memory_bytes=labelled or min(gpu.memory_bytes for gpu in gpus) or None,
            used=tuple(_iter_hami_uses(gpus, pods)),
            mig_gpus=0,
            replicas=max(gpu.replicas for gpu in gpus),
        )
        for name, gpus in by_name.items()
    )


def _iter_hami_uses(gpus: Sequence[SharedGpu], pods: Sequence[PodUse]) -> Iterator[ObservedUse]:
    free = {gpu.uuid: index for index, gpu in enumerate(gpus)}
    for use in pods:
        indices = tuple(sorted(free.pop(uuid) for uuid in use.hami_uuids if uuid in free))
        if indices:
            yield ObservedUse(holder=use.holder, num_gpus=len(indices), gpu_indices=indices)
    sick = tuple(free[gpu.uuid] for gpu in gpus if not gpu.is_healthy and gpu.uuid in free)
    if sick:
        yield ObservedUse(holder=UNHEALTHY, num_gpus=len(sick), gpu_indices=sick)


def _iter_uses(
    count: int, usable: int, resource: str, pods: Sequence[PodUse], *, is_shared: bool
) -> Iterator[ObservedUse]:
    """Yield who uses GPUs, then those that the kubelet withholds.

    Pods on shared GPUs may each have a part of another one.
    """
    free = count
    for use in pods:
        num_gpus = min(use.resources.get(resource, 0), free)
        if num_gpus:
            free -= num_gpus
            yield ObservedUse(holder=use.holder, num_gpus=num_gpus)
    missing = min(max(count - usable, 0), free)
    if missing and not (is_shared and usable):
        yield ObservedUse(holder=UNHEALTHY, num_gpus=missing)


def _iter_slices(labels: Json, capacity: Json, pods: Sequence[PodUse]) -> Iterator[ObservedSlices]:
    """Yield slices by labels, else by what is offered."""
    totals = _sum_slices({label: get_count(labels, label) or 0 for label in labels})
    if not totals:
        # The plugin offers slices where nothing writes labels.
        totals = _sum_slices({f"{name}.count": _amount(capacity, name) for name in capacity})
    used = _count_used_slices(pods)
    for profile, total in totals.items():
        if total:
            yield ObservedSlices(
                profile=profile, total=total, used=min(used.get(profile, 0), total)
            )


def _count_used_slices(pods: Sequence[PodUse]) -> Mapping[str, int]:
    used: Counter[str] = Counter()
    for use in pods:
        used.update(_sum_slices({f"{name}.count": n for name, n in use.resources.items()}))
    return used


def _sum_slices(counts: Mapping[str, int]) -> dict[str, int]:
    """Return each profile's slices, by labels of their numbers."""
    totals: dict[str, int] = {}
    for label, count in counts.items():
        match = _MIXED.fullmatch(label) if label.startswith(MIG) else None
        if match is not None:
            totals[match[1]] = totals.get(match[1], 0) + count
    return totals


def _amount(resources: Json, name: str) -> int:
    return read_quantity(resources.get(name)) or 0


def _check_count(count: int) -> None:
    if count > MAX_GPUS:
        message = f"has {count:,} GPUs on one node, and none has more than {MAX_GPUS}"
        raise InventoryFormatError(message)
