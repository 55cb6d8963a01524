"""Resources of pods, from ``kubectl get pods -A -o json``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from service.formats.gpu_requests.kubernetes_quantities import read_quantity
from service.formats.inventories.documents import Json, get_object, get_objects, get_text
from service.formats.inventories.hami import ALLOCATED, list_allocated

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUse:
    """One pod's resources on its node, by name; memory in bytes."""

    holder: str
    resources: Mapping[str, int]
    hami_uuids: tuple[str, ...] = field(default=())


def index_pods(pods: Iterable[Json]) -> Mapping[str, list[PodUse]]:
    """Return the pods that hold resources, by node."""
    by_node: dict[str, list[PodUse]] = {}
    for pod in pods:
        spec, metadata = get_object(pod, "spec"), get_object(pod, "metadata")
        node = get_text(spec, "nodeName")
        if node and get_text(get_object(pod, "status"), "phase") not in _ENDED:
            use = PodUse(
                holder=f"{get_text(metadata, 'namespace')}/{get_text(metadata, 'name')}"[:120],
                resources=_sum_resources(spec),
                hami_uuids=list_allocated(get_text(get_object(metadata, "annotations"), ALLOCATED)),
            )
            by_node.setdefault(node, []).append(use)
    return by_node


def _sum_resources(spec: Json) -> Mapping[str, int]:
    """Return a pod's effective requests.

    Those of its containers together, or of its largest init container.
    """
    total: dict[str, int] = {}
    for container in get_objects(spec, "containers"):
        for name, amount in _read_requests(container).items():
            total[name] = total.get(name, 0) + amount
    for container in get_objects(spec, "initContainers"):
        for name, amount in _read_requests(container).items():
            total[name] = max(total.get(name, 0), amount)
    return total


def _read_requests(container: Json) -> Mapping[str, int]:
    resources = get_object(container, "resources")
    amounts = {**get_object(resources, "limits"), **get_object(resources, "requests")}
    return {
        name: amount
        for name, value in amounts.items()
        if name != "cpu" and (amount := read_quantity(value)) is not None
    }
