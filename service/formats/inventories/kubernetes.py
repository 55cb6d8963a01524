"""Kubernetes objects as nodes: ``kubectl get nodes,pods,resourceslices -A -o json``.

Nodes say what there is, pods and ResourceClaims what is used now; ResourceSlices take the place of
labels on the nodes that they describe.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.formats.gpu_requests.kubernetes_quantities import read_quantity
from service.formats.gpu_requests.pod_products import GPU
from service.formats.inventories.documents import Json, get_object, get_objects, get_text
from service.formats.inventories.feature_discovery import read_gpus
from service.formats.inventories.observed import (
    InventoryFormat,
    InventoryFormatError,
    ObservedInventory,
    ObservedNode,
    Omission,
    check_nodes,
)
from service.formats.inventories.pods import PodUse, index_pods
from service.formats.inventories.resource_slices import SliceInventory, read_slices
from service.formats.inventories.topology_labels import (
    ACCELERATOR,
    CLIQUE,
    get_levels,
    read_level_labels,
    shorten_label,
)

KINDS = ("Node", "Pod", "ResourceSlice", "ResourceClaim", "Topology")
_CLOSING = frozenset({"NoSchedule", "NoExecute"})
_EXPLAINED_TAINTS = frozenset(
    {
        GPU,
        "amd.com/gpu",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/not-ready",
    }
)
"""Taints that keep pods without GPUs away, and those of what a node says of itself."""
_NO_PODS = (
    "no pods are in the file, so that nothing counts as used: `kubectl get nodes,pods -A -o json` "
    "says what runs now"
)
_SHOWN = 5
_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    pods: Mapping[str, Sequence[PodUse]]
    slices: SliceInventory
    level_labels: tuple[str, ...]
    tolerated: frozenset[str]


def is_kubernetes(document: Json) -> bool:
    """Return whether a document has Kubernetes objects."""
    kind = get_text(document, "kind")
    return "apiVersion" in document and (kind in KINDS or kind.endswith("List"))


def read_kubernetes(
    documents: Sequence[Json], *, tolerated: frozenset[str] = frozenset()
) -> ObservedInventory:
    """Return the GPU nodes of some documents of one moment.

    Taints with a key of ``tolerated`` keep no work away.
    """
    objects: dict[str, list[Json]] = {kind: [] for kind in KINDS}
    for document in documents:
        for kind, item in _iter_objects(document):
            if kind in objects:
                objects[kind].append(item)
    if not objects["Node"] and not objects["ResourceSlice"]:
        message = (
            "lists neither nodes nor ResourceSlices; send `kubectl get nodes -o json`, and with "
            "what runs there `kubectl get nodes,pods -A -o json`"
        )
        raise InventoryFormatError(message)
    labels = [_get_labels(node) for node in objects["Node"]]
    cluster = _Cluster(
        pods=index_pods(objects["Pod"]),
        slices=read_slices(objects["ResourceSlice"], objects["ResourceClaim"]),
        level_labels=read_level_labels(objects["Topology"], labels),
        tolerated=tolerated,
    )
    return _build_inventory(objects["Node"], cluster)


def _build_inventory(items: Sequence[Json], cluster: _Cluster) -> ObservedInventory:
    nodes = [_read_node(item, cluster) for item in items]
    names = {node.name for node in nodes}
    bare = tuple(
        ObservedNode(name=name, gpus=gpus)
        for name, gpus in cluster.slices.gpus.items()
        if name not in names
    )
    silent = [node.name for node in nodes if not node.gpus]
    more = f" and {len(silent) - _SHOWN} more" if len(silent) > _SHOWN else ""
    omission = Omission(
        what=f"{', '.join(silent[:_SHOWN])}{more}",
        reason="offers no GPUs: no label of feature discovery, no device plugin, no ResourceSlice",
    )
    return ObservedInventory(
        format=InventoryFormat.KUBERNETES,
        nodes=check_nodes((*(node for node in nodes if node.gpus), *bare)),
        level_names=tuple(shorten_label(label) for label in cluster.level_labels),
        omissions=(*cluster.slices.omissions, *((omission,) if silent else ())),
        notes=() if cluster.pods or not nodes else (_NO_PODS,),
    )


def _iter_objects(document: Json) -> Iterator[tuple[str, Json]]:
    """Yield each object with its kind.

    Items of an API's list leave theirs out.
    """
    kind = get_text(document, "kind")
    if not kind.endswith("List"):
        yield kind, document
        return
    for item in get_objects(document, "items"):
        yield get_text(item, "kind") or kind.removesuffix("List"), item


def _read_node(item: Json, cluster: _Cluster) -> ObservedNode:
    name = get_text(get_object(item, "metadata"), "name")
    labels, status = _get_labels(item), get_object(item, "status")
    capacity, allocatable = get_object(status, "capacity"), get_object(status, "allocatable")
    pods = cluster.pods.get(name, ())
    annotations = get_object(get_object(item, "metadata"), "annotations")
    gpus = cluster.slices.gpus.get(name) or read_gpus(
        (labels, annotations), (capacity, allocatable), pods
    )
    return ObservedNode(
        name=name,
        gpus=gpus,
        unavailable=_explain_closed(item, cluster.tolerated),
        host_memory_bytes=read_quantity(allocatable.get("memory", capacity.get("memory"))),
        used_host_bytes=sum(use.resources.get("memory", 0) for use in pods),
        nvlink_domain=get_text(labels, CLIQUE) or get_text(labels, ACCELERATOR) or None,
        levels=get_levels(labels, cluster.level_labels),
    )


def _explain_closed(item: Json, tolerated: frozenset[str]) -> str | None:
    spec = get_object(item, "spec")
    is_ready = all(
        get_text(condition, "status") == "True"
        for condition in get_objects(get_object(item, "status"), "conditions")
        if get_text(condition, "type") == "Ready"
    )
    reasons = [
        *(["cordoned"] if spec.get("unschedulable") is True else []),
        *([] if is_ready else ["not ready"]),
        *(
            f"tainted {key}{f'={value}' if value else ''}"
            for key, value in _iter_closing_taints(spec)
            if key not in tolerated
        ),
    ]
    return ", ".join(dict.fromkeys(reasons))[:_LONGEST_REASON] or None


def _iter_closing_taints(spec: Json) -> Iterator[tuple[str, str]]:
    for taint in get_objects(spec, "taints"):
        key = get_text(taint, "key")
        if get_text(taint, "effect") in _CLOSING and key not in _EXPLAINED_TAINTS:
            yield key, get_text(taint, "value")


def _get_labels(item: Json) -> Json:
    return get_object(get_object(item, "metadata"), "labels")
