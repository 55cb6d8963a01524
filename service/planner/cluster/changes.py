"""Differences between two inventories of a cluster, node by node.

When and by whom a node was seen is no difference.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.planner.cluster.inventory import ClusterInventory, Node, Pool


class ChangeKind(StrEnum):
    """Kind of change of a node or a pool."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One value that changes, as JSON before and after."""

    name: str
    before: object
    after: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a pool, or of its node ``node``."""

    kind: ChangeKind
    pool: str
    gpu: str
    node: str | None = None
    fields: tuple[FieldChange, ...] = ()


_POOL_FIELDS = (
    "gpu",
    "gpus_per_node",
    "num_nodes",
    "nvlink_island_size",
    "host_memory_bytes",
    "gpu_memory_bytes",
    "gpu_replicas",
    "level_names",
)
_NODE_FIELDS = (
    "state",
    "unavailable",
    "allocated_gpus",
    "allocations",
    "mig_gpus",
    "mig_slices",
    "levels",
)


def list_changes(before: ClusterInventory | None, after: ClusterInventory) -> tuple[Change, ...]:
    """Return the changes of pools, then of nodes."""
    old_pools = {} if before is None else {pool.name: pool for pool in before.pools}
    new_pools = {pool.name: pool for pool in after.pools}
    return (
        *_compare_pools(old_pools, new_pools),
        *_compare_nodes(_index_nodes(old_pools), _index_nodes(new_pools)),
    )


def _compare_pools(old: Mapping[str, Pool], new: Mapping[str, Pool]) -> Iterator[Change]:
    for name, pool in new.items():
        previous = old.get(name)
        if previous is None:
            yield Change(kind=ChangeKind.ADDED, pool=name, gpu=pool.gpu)
        elif fields := tuple(_compare_fields(previous, pool, _POOL_FIELDS)):
            yield Change(kind=ChangeKind.CHANGED, pool=name, gpu=pool.gpu, fields=fields)
    for name, pool in old.items():
        if name not in new:
            yield Change(kind=ChangeKind.REMOVED, pool=name, gpu=pool.gpu)


def _compare_nodes(
    old: Mapping[tuple[str, str], tuple[Pool, Node]],
    new: Mapping[tuple[str, str], tuple[Pool, Node]],
) -> Iterator[Change]:
    for key, (pool, node) in new.items():
        previous = old.get(key)
        if previous is None:
            yield _make_node_change(ChangeKind.ADDED, pool, node, ())
        elif fields := (
            *_compare_places(previous[0], pool),
            *_compare_fields(previous[1], node, _NODE_FIELDS),
        ):
            yield _make_node_change(ChangeKind.CHANGED, pool, node, fields)
    for key, (pool, node) in old.items():
        if key not in new:
            yield _make_node_change(ChangeKind.REMOVED, pool, node, ())


def _compare_places(old: Pool, new: Pool) -> Iterator[FieldChange]:
    if old.name != new.name:
        yield FieldChange(name="pool", before=old.name, after=new.name)
    if old.gpus_per_node != new.gpus_per_node:
        yield FieldChange(name="gpus", before=old.gpus_per_node, after=new.gpus_per_node)


def _compare_fields(old: object, new: object, names: tuple[str, ...]) -> Iterator[FieldChange]:
    for name in names:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield FieldChange(name=name, before=before, after=after)


def _make_node_change(
    kind: ChangeKind, pool: Pool, node: Node, fields: tuple[FieldChange, ...]
) -> Change:
    return Change(kind=kind, pool=pool.name, gpu=pool.gpu, node=node.name, fields=fields)


def _index_nodes(pools: Mapping[str, Pool]) -> dict[tuple[str, str], tuple[Pool, Node]]:
    """Return the named nodes by GPU and name.

    One machine may have GPUs of two kinds.
    """
    return {
        (pool.gpu, node.name): (pool, node) for pool in pools.values() for node in pool.nodes or ()
    }
