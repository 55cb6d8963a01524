"""GPUs of Kubernetes' dynamic resource allocation: ResourceSlices and ResourceClaims.

``resource.k8s.io/v1`` and its betas. A pool counts when every slice of its highest generation is
there. Devices that take from shared counters are ways to cut a GPU that is listed itself: they are
not added to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from service.formats.gpu_requests.kubernetes_quantities import read_quantity
from service.formats.inventories.documents import Json, get_count, get_object, get_objects, get_text
from service.formats.inventories.observed import (
    MAX_GPUS,
    InventoryFormatError,
    ObservedGpus,
    ObservedSlices,
    ObservedUse,
    Omission,
)

TAINTED = "tainted device"
DeviceKey = tuple[str, str, str]
"""Driver, pool and device, as claims name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceInventory:
    """GPUs by node, and the pools and devices that became none."""

    gpus: Mapping[str, tuple[ObservedGpus, ...]]
    omissions: tuple[Omission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Device:
    name: str
    kind: str
    memory_bytes: int
    profile: str
    parent: str
    holder: str | None


@dataclass(slots=True, kw_only=True)
class _NodeDevices:
    gpus: dict[str, list[_Device]] = field(default_factory=dict)
    migs: dict[str, list[_Device]] = field(default_factory=dict)


def read_slices(slices: Sequence[Json], claims: Sequence[Json]) -> SliceInventory:
    """Return the GPUs of complete pools, with what claims hold of them."""
    omissions: list[Omission] = []
    held_by = dict(_iter_claimed(claims))
    nodes: dict[str, _NodeDevices] = {}
    for (driver, pool), parts in _group_by_pool(slices).items():
        newest = max(_read_generation(part) for part in parts)
        current = [part for part in parts if _read_generation(part) == newest]
        expected = get_count(
            get_object(get_object(current[0], "spec"), "pool"), "resourceSliceCount"
        )
        if expected is not None and len(current) < expected:
            reason = f"has {len(current)} of {expected} slices of generation {newest}"
            omissions.append(Omission(what=f"pool {driver}/{pool}"[:200], reason=reason))
            continue
        for part in current:
            _add_devices(nodes, (driver, pool), get_object(part, "spec"), held_by, omissions)
    gpus = {name: tuple(_iter_gpus(devices)) for name, devices in nodes.items()}
    return SliceInventory(gpus=gpus, omissions=tuple(omissions))


def _group_by_pool(slices: Sequence[Json]) -> Mapping[tuple[str, str], list[Json]]:
    pools: dict[tuple[str, str], list[Json]] = {}
    for part in slices:
        spec = get_object(part, "spec")
        key = (get_text(spec, "driver"), get_text(get_object(spec, "pool"), "name"))
        pools.setdefault(key, []).append(part)
    return pools


def _read_generation(part: Json) -> int:
    return get_count(_get_pool(part), "generation") or 0


def _get_pool(part: Json) -> Json:
    return get_object(get_object(part, "spec"), "pool")


def _add_devices(
    nodes: dict[str, _NodeDevices],
    pool: tuple[str, str],
    spec: Json,
    held_by: Mapping[DeviceKey, str],
    omissions: list[Omission],
) -> None:
    node = get_text(spec, "nodeName")
    for raw in get_objects(spec, "devices"):
        device = _read_device(raw, held_by.get((*pool, get_text(raw, "name"))))
        if device is None:
            continue
        if not node:
            reason = "belongs to no single node"
            omissions.append(Omission(what=f"device {pool[0]}/{device.name}"[:200], reason=reason))
            continue
        devices = nodes.setdefault(node, _NodeDevices())
        group = devices.migs if device.profile else devices.gpus
        group.setdefault(device.kind, []).append(device)


def _read_device(raw: Json, holder: str | None) -> _Device | None:
    """Return a GPU or a slice that exists; None for anything else.

    v1beta1 has a device's attributes one level deeper, under ``basic``.
    """
    body = get_object(raw, "basic") or raw
    attributes = get_object(body, "attributes")
    memory = get_object(get_object(body, "capacity"), "memory").get("value")
    product = _read_attribute(attributes, "productName")
    num_bytes = read_quantity(memory)
    profile = _read_attribute(attributes, "profile")
    if not product or num_bytes is None or (profile and get_objects(body, "consumesCounters")):
        return None
    tainted = any(get_text(taint, "effect") for taint in get_objects(body, "taints"))
    return _Device(
        name=get_text(raw, "name"),
        kind=product,
        memory_bytes=num_bytes,
        profile=profile,
        parent=_read_attribute(attributes, "parentUUID"),
        holder=holder or (TAINTED if tainted else None),
    )


def _read_attribute(attributes: Json, name: str) -> str:
    """Return a text attribute, under its bare name or its driver's domain."""
    for key, value in attributes.items():
        if key.rpartition("/")[2] == name and isinstance(value, Mapping):
            return get_text(value, "string")
    return ""


def _iter_gpus(devices: _NodeDevices) -> Iterator[ObservedGpus]:
    if sum(len(group) for group in devices.gpus.values()) > MAX_GPUS:
        message = f"has more than {MAX_GPUS} GPUs on one node"
        raise InventoryFormatError(message)
    for product in dict.fromkeys((*devices.gpus, *devices.migs)):
        gpus, migs = devices.gpus.get(product, []), devices.migs.get(product, [])
        parents = {device.parent for device in migs}
        yield ObservedGpus(
            name=product,
            count=len(gpus),
            memory_bytes=min((gpu.memory_bytes for gpu in gpus), default=None),
            used=tuple(_iter_uses(gpus)),
            slices=tuple(_iter_slices(migs)),
            mig_gpus=len(parents) if "" not in parents else None,
        )


def _iter_uses(gpus: Sequence[_Device]) -> Iterator[ObservedUse]:
    by_holder: dict[str, int] = {}
    for gpu in gpus:
        if gpu.holder is not None:
            by_holder[gpu.holder] = by_holder.get(gpu.holder, 0) + 1
    for holder, num_gpus in by_holder.items():
        yield ObservedUse(holder=holder, num_gpus=num_gpus)


def _iter_slices(migs: Sequence[_Device]) -> Iterator[ObservedSlices]:
    for profile in dict.fromkeys(device.profile for device in migs):
        group = [device for device in migs if device.profile == profile]
        used = sum(device.holder is not None for device in group)
        yield ObservedSlices(profile=profile, total=len(group), used=used)


def _iter_claimed(claims: Sequence[Json]) -> Iterator[tuple[DeviceKey, str]]:
    """Yield the devices that claims have, and who has them.

    A claim that reserves for administrators takes nothing.
    """
    for claim in claims:
        metadata, status = get_object(claim, "metadata"), get_object(claim, "status")
        users = get_objects(status, "reservedFor")
        name = get_text(users[0], "name") if users else get_text(metadata, "name")
        holder = f"{get_text(metadata, 'namespace')}/{name}"[:120]
        devices = get_object(get_object(status, "allocation"), "devices")
        for result in get_objects(devices, "results"):
            if result.get("adminAccess") is not True:
                yield (
                    (
                        get_text(result, "driver"),
                        get_text(result, "pool"),
                        get_text(result, "device"),
                    ),
                    holder,
                )
