"""Supply of a cluster, by pool and kind of pool."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from service.planner.cluster.inventory import ClusterInventory, Node, Pool
from service.planner.cluster.node_supply import NodeSupply, build_node_supply
from service.planner.cluster.reservation import Reservation, Share

SharesByNode = Mapping[tuple[str, str], Sequence[tuple[Reservation, Share]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSupply:
    """Nodes of one kind, in the order of the inventory."""

    pool: Pool
    nodes: tuple[NodeSupply, ...]

    @property
    def free_gpus(self) -> int:
        """Whole GPUs that can be given out now."""
        return sum(node.free_gpus for node in self.nodes)

    @property
    def reserved_gpus(self) -> int:
        """Whole GPUs of nodes in service that reservations hold."""
        return sum(node.reserved_gpus for node in self.nodes)

    @property
    def whole_gpus(self) -> int:
        """GPUs of the empty pool that MIG has not cut."""
        return self.pool.total_gpus - sum(node.mig_gpus for node in self.pool.nodes or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSupply:
    """Pools of identical nodes at the same price.

    A job may span them.

    ``total_gpus`` are the whole GPUs of the empty pools: a plan for more can never run here.
    ``free_gpus`` are free now.
    """

    pools: tuple[str, ...]
    gpu: str
    total_gpus: int
    free_gpus: int
    gpus_per_node: int
    nvlink_island_size: int
    host_memory_bytes: int | None
    nvme_bytes: int | None
    network_bytes_per_second: int | None
    price_per_gpu_hour: float | None
    free_slices: Mapping[str, int]
    """Slices by MIG profile that are free now."""
    total_slices: Mapping[str, int]
    gpu_memory_bytes: int | None = None
    """Of a GPU that the catalogue does not have; 0 where nobody knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """A cluster less what is reserved, with its inputs."""

    inventory: ClusterInventory
    reservations: tuple[Reservation, ...]
    pools: tuple[PoolSupply, ...]

    def list_kinds(self) -> tuple[KindSupply, ...]:
        """Return the supply by kind of pool.

        Pools of one kind are together, in the order of the inventory; a search may plan with each.
        """
        pools_by_kind: dict[Pool, list[PoolSupply]] = {}
        for pool in self.pools:
            pools_by_kind.setdefault(_get_kind(pool.pool), []).append(pool)
        return tuple(_build_kind_supply(pools) for pools in pools_by_kind.values())


def build_supply(cluster: ClusterInventory, reservations: Iterable[Reservation] = ()) -> Supply:
    """Build a cluster's supply beside ``reservations``.

    All of them count as live.
    """
    live = tuple(reservations)
    shares_by_node = _index_shares(live)
    pools = tuple(_build_pool_supply(pool, shares_by_node) for pool in cluster.pools)
    return Supply(inventory=cluster, reservations=live, pools=pools)


def release_expired(supply: Supply, moment: datetime) -> Supply:
    """Return the same cluster at a later moment.

    Reservations will have expired by then, and nothing else has changed.
    """
    remaining = tuple(
        reservation for reservation in supply.reservations if reservation.expires_at > moment
    )
    shares_by_node = _index_shares(remaining)
    expired = _index_shares(
        reservation for reservation in supply.reservations if reservation.expires_at <= moment
    )
    pools = (
        replace(
            pool,
            nodes=tuple(
                build_node_supply(
                    pool.pool, node, shares_by_node.get((pool.pool.name, node.name), ())
                )
                if (pool.pool.name, node.name) in expired
                else previous
                for node, previous in zip(pool.pool.list_nodes(), pool.nodes, strict=True)
            ),
        )
        for pool in supply.pools
    )
    return replace(supply, reservations=remaining, pools=tuple(pools))


def clear_supply(supply: Supply) -> Supply:
    """Return the same cluster with every node ready and unused."""
    pools = (
        replace(
            pool,
            nodes=tuple(
                _clear_node(pool.pool, *pair)
                for pair in zip(pool.pool.list_nodes(), pool.nodes, strict=True)
            ),
        )
        for pool in supply.pools
    )
    return replace(supply, reservations=(), pools=tuple(pools))


def _get_kind(pool: Pool) -> Pool:
    return replace(pool, name="", nodes=None, num_nodes=0, level_names=())


def _build_kind_supply(pools: Sequence[PoolSupply]) -> KindSupply:
    first = pools[0].pool
    return KindSupply(
        pools=tuple(pool.pool.name for pool in pools),
        gpu=first.gpu,
        total_gpus=sum(pool.whole_gpus for pool in pools),
        free_gpus=sum(pool.free_gpus for pool in pools),
        gpus_per_node=first.gpus_per_node,
        nvlink_island_size=first.island_size,
        host_memory_bytes=first.host_memory_bytes,
        nvme_bytes=first.nvme_bytes,
        network_bytes_per_second=first.network_bytes_per_second,
        price_per_gpu_hour=first.price_per_gpu_hour,
        free_slices=_add_counts(node.free_slices for pool in pools for node in pool.nodes),
        total_slices=_add_counts(
            {slices.profile: slices.total for slices in node.mig_slices}
            for pool in pools
            for node in pool.pool.nodes or ()
        ),
        gpu_memory_bytes=first.gpu_memory_bytes,
    )


def _add_counts(counts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def _index_shares(reservations: Iterable[Reservation]) -> SharesByNode:
    shares_by_node: dict[tuple[str, str], list[tuple[Reservation, Share]]] = {}
    for reservation in reservations:
        for share in reservation.shares:
            shares_by_node.setdefault((share.pool, share.node), []).append((reservation, share))
    return shares_by_node


def _clear_node(pool: Pool, node: Node, supply: NodeSupply) -> NodeSupply:
    if (
        not supply.claims
        and not node.mig_slices
        and supply.free_host_bytes == pool.host_memory_bytes
    ):
        return supply
    slices = tuple(replace(slices, allocated=0) for slices in node.mig_slices)
    cleared = Node(name=node.name, mig_gpus=node.mig_gpus, mig_slices=slices, levels=node.levels)
    return build_node_supply(pool, cleared, ())


def _build_pool_supply(pool: Pool, shares_by_node: SharesByNode) -> PoolSupply:
    nodes = (
        build_node_supply(pool, node, shares_by_node.get((pool.name, node.name), ()))
        for node in pool.list_nodes()
    )
    return PoolSupply(pool=pool, nodes=tuple(nodes))
