"""Imported pools put into a stored inventory.

What the import does not say of a pool stays: its name, its price, its network and its NVMe.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum

from service.planner.cluster.inventory import ClusterInventory, Node, Pool


class ImportScope(StrEnum):
    """Stored nodes that an import removes when it lacks them."""

    NAMED = "named"
    """None: the import is about the nodes that it names."""
    SOURCE = "source"
    """Those that an import of the same tool added."""
    CLUSTER = "cluster"
    """All: the import is the whole cluster."""


def adopt_pools(
    stored: ClusterInventory | None, imported: Sequence[Pool], *, tool: str, scope: ImportScope
) -> ClusterInventory:
    """Return the inventory after an import by ``tool``.

    Nodes come to the stored pool of their kind that has most of them already, else to a new one.
    """
    names = {node.name for pool in imported for node in pool.nodes or ()}
    stored_pools = () if stored is None else stored.pools
    candidates = () if scope is ImportScope.CLUSTER else stored_pools
    homes: list[Pool | None] = []
    free = list(stored_pools)
    for pool in imported:
        home = _find_home(pool, free)
        homes.append(home)
        if home is not None:
            free.remove(home)
    used_names = {home.name for home in homes if home is not None} | {
        pool.name
        for pool in candidates
        if pool.nodes is None or _list_others(pool, names, tool, scope)
    }
    adopted: dict[str, Pool] = {}
    for pool, home in zip(imported, homes, strict=True):
        new = (
            replace(pool, name=_choose_name(pool.name, used_names))
            if home is None
            else _merge_pool(home, pool)
        )
        used_names.add(new.name)
        adopted[new.name] = new
    return ClusterInventory(
        pools=tuple(
            _iter_pools(stored_pools, candidates, adopted, names=names, tool=tool, scope=scope)
        )
    )


def _iter_pools(
    stored_pools: Sequence[Pool],
    candidates: Sequence[Pool],
    adopted: dict[str, Pool],
    *,
    names: set[str],
    tool: str,
    scope: ImportScope,
) -> Iterator[Pool]:
    """Yield the pools in the stored order, then the new ones."""
    for pool in stored_pools:
        remaining = _list_others(pool, names, tool, scope) if pool in candidates else ()
        if pool.name in adopted:
            home = adopted.pop(pool.name)
            adapted = _adapt(remaining, pool.level_names, home.level_names)
            yield replace(home, nodes=(*(home.nodes or ()), *adapted))
        elif pool in candidates and pool.nodes is None:
            yield pool
        elif remaining:
            yield replace(pool, nodes=remaining)
    yield from adopted.values()


def _list_others(pool: Pool, names: set[str], tool: str, scope: ImportScope) -> tuple[Node, ...]:
    """Return a pool's nodes that the import neither names nor removes."""
    return tuple(
        node
        for node in pool.nodes or ()
        if node.name not in names
        and not (scope is ImportScope.SOURCE and (node.source or "").split(" ")[0] == tool)
    )


def _adapt(nodes: Sequence[Node], before: Sequence[str], after: Sequence[str]) -> tuple[Node, ...]:
    """Return nodes with places under their pool's new level names.

    A place is known by its level's name: a rack is no block, however many levels there are.
    """
    if tuple(before) == tuple(after):
        return tuple(nodes)
    positions = [before.index(name) for name in after] if set(after) <= set(before) else []
    return tuple(
        replace(
            node, levels=tuple(node.levels[index] for index in positions) if node.levels else ()
        )
        for node in nodes
    )


def _find_home(pool: Pool, candidates: Sequence[Pool]) -> Pool | None:
    names = {node.name for node in pool.nodes or ()}
    homes = [
        candidate
        for candidate in candidates
        if candidate.nodes is not None and _get_kind(candidate) == _get_kind(pool)
    ]
    return max(
        homes,
        key=lambda home: sum(node.name in names for node in home.nodes or ()),
        default=None,
    )


def _get_kind(pool: Pool) -> tuple[str, int | None, int, int | None]:
    return pool.gpu, pool.gpu_memory_bytes, pool.gpus_per_node, pool.gpu_replicas


def _merge_pool(home: Pool, pool: Pool) -> Pool:
    return replace(
        pool,
        name=home.name,
        nvlink_island_size=home.nvlink_island_size
        if pool.nvlink_island_size is None
        else pool.nvlink_island_size,
        host_memory_bytes=home.host_memory_bytes
        if pool.host_memory_bytes is None
        else pool.host_memory_bytes,
        nvme_bytes=home.nvme_bytes,
        network_bytes_per_second=home.network_bytes_per_second,
        price_per_gpu_hour=home.price_per_gpu_hour,
        level_names=pool.level_names or home.level_names,
    )


def _choose_name(name: str, used_names: set[str]) -> str:
    number = 1
    candidate = name
    while candidate in used_names:
        number += 1
        candidate = f"{name[:57]}-{number}"
    return candidate
