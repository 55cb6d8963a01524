"""A fleet of dstack: ``dstack fleet get NAME --json``.

Shapes: dstack, core/models/fleets.py and instances.py.
"""

from collections.abc import Sequence

from service.estimator.values.units import ceil_div
from service.formats.inventories.documents import (
    Json,
    get_count,
    get_mebibytes,
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
    Omission,
    check_nodes,
)

_GONE = frozenset({"terminating", "terminated"})
_COMING = frozenset({"pending", "provisioning"})


def is_dstack(document: Json) -> bool:
    """Return whether a document is a fleet."""
    return "instances" in document and "spec" in document


def read_dstack(fleets: Sequence[Json]) -> ObservedInventory:
    """Return the instances of some fleets that have GPUs.

    An instance of ``total_blocks`` gives its GPUs out in that many equal parts.
    """
    instances = [instance for fleet in fleets for instance in get_objects(fleet, "instances")]
    present = [row for row in instances if get_text(row, "status") not in _GONE]
    nodes = [_read_node(row) for row in present]
    gone = len(instances) - len(present)
    return ObservedInventory(
        format=InventoryFormat.DSTACK,
        nodes=check_nodes(node for node in nodes if node.gpus),
        omissions=(Omission(what=f"{gone} instances", reason="are being ended"),) if gone else (),
    )


def _read_node(row: Json) -> ObservedNode:
    resources = get_object(get_object(row, "instance_type"), "resources")
    gpus = get_objects(resources, "gpus")
    if len(gpus) > MAX_GPUS:
        message = f"has {len(gpus):,} GPUs on one instance, and none has more than {MAX_GPUS}"
        raise InventoryFormatError(message)
    kinds: dict[tuple[str, int | None], int] = {}
    for gpu in gpus:
        key = get_text(gpu, "name"), get_mebibytes(gpu, "memory_mib")
        kinds[key] = kinds.get(key, 0) + 1
    return ObservedNode(
        name=get_text(row, "name"),
        gpus=tuple(
            ObservedGpus(
                name=name,
                count=count,
                memory_bytes=memory,
                used=_list_uses(row, count),
                mig_gpus=0,
            )
            for (name, memory), count in kinds.items()
        ),
        unavailable=_explain_closed(row),
        host_memory_bytes=get_mebibytes(resources, "memory_mib"),
    )


def _list_uses(row: Json, count: int) -> tuple[ObservedUse, ...]:
    blocks = get_count(row, "total_blocks") or 1
    busy = get_count(row, "busy_blocks") or 0
    if not busy and get_text(row, "status") == "busy":
        busy = blocks
    used = min(ceil_div(count * busy, blocks), count)
    return (ObservedUse(holder="dstack", num_gpus=used),) if used else ()


def _explain_closed(row: Json) -> str | None:
    status = get_text(row, "status")
    if status in _COMING:
        return status
    if row.get("unreachable") is True:
        return "unreachable"
    return "unhealthy" if get_text(row, "health_status") == "failure" else None
