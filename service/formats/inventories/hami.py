"""HAMi's annotations of nodes and pods.

A node registers its GPUs as JSON, before 2.6 as text with colons and commas (pkg/device/devices.go,
DecodeNodeDevices and UnMarshalNodeDevices).
"""

import json
from dataclasses import dataclass

from service.estimator.values.units import MIB
from service.formats.inventories.documents import Json, get_count, get_text

REGISTER = "hami.io/node-nvidia-register"
ALLOCATED = "hami.io/vgpu-devices-allocated"
_LONGEST = 262_144
"""All annotations of one object together (apimachinery, TotalAnnotationSizeLimitB)."""
_FIELDS = (7, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedGpu:
    """One GPU that HAMi gives out in up to ``replicas`` parts.

    ``memory_bytes`` may be more than the GPU has, where the operator oversubscribes it.
    """

    uuid: str
    replicas: int
    memory_bytes: int
    name: str
    is_healthy: bool


def read_register(text: str) -> tuple[SharedGpu, ...]:
    """Return the GPUs of an annotation, none where unreadable."""
    if len(text) > _LONGEST:
        return ()
    if text.lstrip().startswith("["):
        return _read_json(text)
    parts = [part.split(",") for part in text.split(":") if part]
    if any(len(fields) not in _FIELDS for fields in parts):
        return ()
    rows = (
        {"id": f[0], "count": f[1], "devmem": f[2], "type": f[4], "health": f[6]} for f in parts
    )
    return tuple(_read_gpu(row) for row in rows)


def list_allocated(text: str) -> tuple[str, ...]:
    """Return the GPUs of a pod's annotation: ``UUID,vendor,MiB,cores:;``."""
    parts = text[:_LONGEST].replace(";", ":").split(":")
    return tuple(dict.fromkeys(part.split(",")[0] for part in parts if "," in part))


def _read_json(text: str) -> tuple[SharedGpu, ...]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return tuple(_read_gpu(row) for row in rows if isinstance(row, dict))


def _read_gpu(row: Json) -> SharedGpu:
    return SharedGpu(
        uuid=get_text(row, "id"),
        replicas=get_count(row, "count") or 1,
        memory_bytes=(get_count(row, "devmem") or 0) * MIB,
        name=get_text(row, "type"),
        is_healthy=row.get("health") in (True, "true"),
    )
