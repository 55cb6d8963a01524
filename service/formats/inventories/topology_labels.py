"""Labels of Kubernetes nodes that place them in the network."""

from collections.abc import Collection, Sequence

from service.formats.inventories.documents import Json, get_object, get_objects, get_text

CLIQUE = "nvidia.com/gpu.clique"
"""``<NVLink fabric>.<clique>``: nodes with the same one reach each other over NVLink."""
ACCELERATOR = "network.topology.nvidia.com/accelerator"
"""The same, as Topograph labels it."""
_HOST = "kubernetes.io/hostname"
_FAMILIES = (
    tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)),
    tuple(f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock", "host")),
    tuple(f"network.topology.nvidia.com/tier-{tier}" for tier in (3, 2, 1, 0)),
    tuple(f"network.topology.nvidia.com/{switch}" for switch in ("core", "spine", "leaf")),
)
"""Outermost first, as each cloud and NVIDIA's Topograph document them."""
MAX_LEVELS = 8
_LONGEST = 120


def read_level_labels(topologies: Sequence[Json], labels: Collection[Json]) -> tuple[str, ...]:
    """Return the labels that are a cluster's levels, outermost first.

    Those of Kueue's Topology where there is one, else of the first cloud whose labels a node has.
    """
    for topology in topologies:
        levels = get_objects(get_object(topology, "spec"), "levels")
        names = [get_text(level, "nodeLabel") for level in levels]
        present = tuple(name for name in names if name and name != _HOST)[:MAX_LEVELS]
        if present:
            return present
    for family in _FAMILIES:
        present = tuple(name for name in family if any(name in node for node in labels))
        if present:
            return present
    return ()


def get_levels(labels: Json, names: Sequence[str]) -> tuple[str, ...]:
    """Return a node's places, none where it lacks one of them."""
    values = tuple(get_text(labels, name)[:_LONGEST] for name in names)
    return values if all(values) else ()


def shorten_label(name: str) -> str:
    """Return the level's name: the label without its domain."""
    return name.rpartition("/")[2][:_LONGEST]
