"""SkyPilot's view of nodes: ``sky.kubernetes_node_info()`` and ``sky.slurm_node_info()`` as JSON.

``sky gpus list -o json`` is a price list of what can be rented, not of nodes. Shapes: skypilot,
sky/models.py (KubernetesNodesInfo) and sky/provision/slurm/utils.py.
"""

from collections.abc import Iterator, Mapping, Sequence

from service.estimator.values.units import GIB
from service.formats.inventories.documents import (
    Json,
    get_count,
    get_object,
    get_objects,
    get_text,
)
from service.formats.inventories.observed import (
    MAX_GPUS,
    InventoryFormat,
    InventoryFormatError,
    ObservedGpus,
    ObservedInventory,
    ObservedNode,
    ObservedUse,
    check_nodes,
)

_NODES = "node_info_dict"
_CLOSED = frozenset({"down", "drain", "drained", "draining", "fail", "error", "maint", "unknown"})
_CLOSING = frozenset({"NoSchedule", "NoExecute"})
_MOST_GB = 2.0**23
PRICE_LIST = (
    "is SkyPilot's price list, which says what can be rented and not what there is; send the "
    "nodes: `python -c 'import json, sky; "
    "print(json.dumps(sky.get(sky.kubernetes_node_info()).to_dict()))'`"
)


def is_skypilot(document: Json) -> bool:
    """Return whether a document is one of SkyPilot's."""
    return _NODES in document or _is_slurm_node(document) or is_price_list(document)


def is_price_list(document: Json) -> bool:
    """Return whether a document is ``sky gpus list -o json``."""
    return bool(document) and all(
        isinstance(items, list)
        and all(isinstance(item, Mapping) and "accelerator_name" in item for item in items)
        for items in document.values()
    )


def read_skypilot(documents: Sequence[Json]) -> ObservedInventory:
    """Return the GPU nodes of some documents; refuse a price list."""
    if any(is_price_list(document) for document in documents):
        raise InventoryFormatError(PRICE_LIST)
    nodes = [node for document in documents for node in _iter_nodes(document)]
    return ObservedInventory(
        format=InventoryFormat.SKYPILOT,
        nodes=check_nodes(node for node in nodes if node.gpus),
    )


def _is_slurm_node(document: Json) -> bool:
    return "node_name" in document and "total_gpus" in document


def _iter_nodes(document: Json) -> Iterator[ObservedNode]:
    for name, info in get_object(document, _NODES).items():
        if isinstance(info, Mapping):
            yield _read_kubernetes_node(name, info)
    if _is_slurm_node(document):
        yield _read_slurm_node(document)


def _read_kubernetes_node(name: str, info: Json) -> ObservedNode:
    total, free = get_object(info, "total"), get_object(info, "free")
    reasons = [
        *(["cordoned"] if info.get("is_cordoned") is True else []),
        *(["not ready"] if info.get("is_ready") is False else []),
        *(
            f"tainted {get_text(taint, 'key')}"
            for taint in get_objects(info, "taints")
            if get_text(taint, "effect") in _CLOSING and taint.get("tolerated") is not True
        ),
    ]
    count = get_count(total, "accelerator_count") or 0
    # A negative number stands for a server that may not see pods: then nothing is known of use.
    available = get_count(free, "accelerators_available")
    return ObservedNode(
        name=name,
        gpus=_build_gpus(get_text(info, "accelerator_type"), count, available),
        unavailable=", ".join(reasons)[:200] or None,
        host_memory_bytes=_read_gibibytes(info.get("memory_gb")),
    )


def _read_slurm_node(row: Json) -> ObservedNode:
    state = get_text(row, "node_state").rstrip("*~#!%$@^-").lower()
    return ObservedNode(
        name=get_text(row, "node_name"),
        gpus=_build_gpus(
            get_text(row, "gpu_type"),
            get_count(row, "total_gpus") or 0,
            get_count(row, "free_gpus"),
        ),
        unavailable=state if _CLOSED & set(state.split("+")) else None,
        host_memory_bytes=_read_gibibytes(row.get("memory_gb")),
    )


def _build_gpus(name: str, count: int, available: int | None) -> tuple[ObservedGpus, ...]:
    if not count:
        return ()
    if count > MAX_GPUS:
        message = f"has {count:,} GPUs on one node, and none has more than {MAX_GPUS}"
        raise InventoryFormatError(message)
    used = 0 if available is None else max(count - available, 0)
    return (
        ObservedGpus(
            name=name or "GPU",
            count=count,
            used=(ObservedUse(holder="skypilot", num_gpus=used),) if used else (),
            mig_gpus=0,
        ),
    )


def _read_gibibytes(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST_GB:
        return None
    return int(value * GIB)
