"""Ray's nodes: ``ray list nodes --format json`` or ``ray.nodes()`` as JSON.

``accelerator_type:A100`` names a GPU and says nothing of its memory.
"""

from collections.abc import Mapping, Sequence

from service.formats.inventories.documents import Json, get_object, get_text
from service.formats.inventories.observed import (
    MAX_GPUS,
    InventoryFormat,
    InventoryFormatError,
    ObservedGpus,
    ObservedInventory,
    ObservedNode,
    Omission,
    check_nodes,
)

_TYPE = "accelerator_type:"
_LABEL = "ray.io/accelerator-type"
_LARGEST = 2.0**53


def is_ray(row: Json) -> bool:
    """Return whether an object is one of Ray's nodes."""
    keys = row.keys()
    return {"node_id", "node_ip", "state"} <= keys or {"Resources", "Alive"} <= keys


def read_ray(rows: Sequence[Json]) -> ObservedInventory:
    """Return the GPU nodes that are alive."""
    if not any("resources_total" in row or "Resources" in row for row in rows):
        message = "does not say what nodes have; send `ray list nodes --format json --detail`"
        raise InventoryFormatError(message)
    alive = [row for row in rows if row.get("Alive") is True or get_text(row, "state") == "ALIVE"]
    nodes = [_read_node(row) for row in alive]
    ended = len(rows) - len(alive)
    return ObservedInventory(
        format=InventoryFormat.RAY,
        nodes=check_nodes(node for node in nodes if node.gpus),
        omissions=(Omission(what=f"{ended} nodes", reason="are dead"),) if ended else (),
        notes=("Ray's list does not say what is used now, so that nothing counts as used",),
    )


def _read_node(row: Json) -> ObservedNode:
    resources = get_object(row, "resources_total") or get_object(row, "Resources")
    labels = get_object(row, "labels") or get_object(row, "Labels")
    names = (get_text(row, key) for key in ("NodeManagerHostname", "node_name", "node_ip"))
    name = next((text for text in names if text), get_text(row, "node_id"))
    count = _read_amount(resources, "GPU")
    if count > MAX_GPUS:
        message = f"has {count:,} GPUs on node {name[:80]!r}, and none has more than {MAX_GPUS}"
        raise InventoryFormatError(message)
    kinds = [key.removeprefix(_TYPE) for key in resources if key.startswith(_TYPE)]
    kind = get_text(labels, _LABEL) or (kinds[0] if len(kinds) == 1 else "")
    return ObservedNode(
        name=name,
        gpus=(ObservedGpus(name=kind or "GPU", count=count, mig_gpus=0),) if count else (),
        host_memory_bytes=_read_amount(resources, "memory") or None,
    )


def _read_amount(resources: Mapping[str, object], name: str) -> int:
    value = resources.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value <= _LARGEST else 0
