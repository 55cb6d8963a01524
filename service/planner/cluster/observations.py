"""Warnings about what is known of a cluster, and since when."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from service.planner.cluster.inventory import ClusterInventory, Node, Pool

STALE_AFTER = timedelta(hours=1)
"""Age from which on an observation says little of what is free: many jobs end within an hour."""
_DAY = timedelta(days=1)
_MINUTES_SHOWN = timedelta(hours=3)


def list_observation_warnings(cluster: ClusterInventory, now: datetime) -> Iterator[str]:
    """Yield what makes answers about this cluster less certain at ``now``.

    Old observations, GPUs whose memory nobody knows, and GPUs that pods share.
    """
    for pool in cluster.pools:
        yield from _list_stale(pool, now)
        if pool.gpu_memory_bytes == 0:
            yield (
                f"nobody knows the memory of {pool.gpu} in pool {pool.name}, so that nothing is "
                "planned there: name the GPU when the cluster is imported, or give its "
                "gpu_memory_bytes"
            )
        if pool.gpu_replicas is not None:
            yield (
                f"up to {pool.gpu_replicas} pods share each GPU of pool {pool.name} in time, and "
                "nothing keeps them out of each other's memory"
            )


def _list_stale(pool: Pool, now: datetime) -> Iterator[str]:
    by_source: dict[str, list[Node]] = {}
    for node in pool.nodes or ():
        if node.observed_at is not None and now - node.observed_at > STALE_AFTER:
            by_source.setdefault(node.source or "", []).append(node)
    for source, nodes in by_source.items():
        oldest = min(node.observed_at for node in nodes if node.observed_at is not None)
        yield (
            f"{len(nodes)} nodes of pool {pool.name} were last seen {_format_age(now - oldest)} "
            f"ago ({source}): what is free there may have changed; import the cluster again"
        )


def _format_age(age: timedelta) -> str:
    if age >= 2 * _DAY:
        return f"{age // _DAY} days"
    if age >= _MINUTES_SHOWN:
        return f"{age // timedelta(hours=1)} hours"
    return f"{age // timedelta(minutes=1)} minutes"
