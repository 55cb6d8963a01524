"""Supply of a cluster: free capacity of each node, and its claims.

Claims say who holds the rest.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from service.planner.cluster.inventory import ClusterInventory, Node, NodeState, Pool
from service.planner.cluster.reservation import Reservation, Share

_NO_INDEX: frozenset[int] = frozenset()
_NO_SLICES: Mapping[str, int] = MappingProxyType({})
SharesByNode = Mapping[tuple[str, str], Sequence[tuple[Reservation, Share]]]


class Hold(StrEnum):
    """Reasons for GPUs that are not free."""

    USED = "used"
    RESERVED = "reserved"
    DRAINED = "drained"
    MIG = "mig"
    """Cut into slices, which are given out one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """GPUs that are not free.

    ``holder`` is None where it is unknown who uses them, ``until`` where the claim has no end.
    """

    hold: Hold
    num_gpus: int
    holder: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSupply:
    """One node: its free whole GPUs, host memory and MIG slices.

    ``named_indices`` are taken for certain, and all that are taken if ``is_known``;
    ``free_host_bytes`` is None where the memory is not known.
    """

    name: str
    free_gpus: int
    named_indices: frozenset[int]
    is_known: bool
    free_host_bytes: int | None
    free_slices: Mapping[str, int]
    claims: tuple[Claim, ...] = ()

    @property
    def reserved_gpus(self) -> int:
        """Whole GPUs that reservations hold."""
        return sum(claim.num_gpus for claim in self.claims if claim.hold is Hold.RESERVED)


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
                _build_node_supply(
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
    return replace(pool, name="", nodes=None, num_nodes=0)


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
    return _build_node_supply(
        pool, Node(name=node.name, mig_gpus=node.mig_gpus, mig_slices=slices), ()
    )


def _build_pool_supply(pool: Pool, shares_by_node: SharesByNode) -> PoolSupply:
    nodes = (
        _build_node_supply(pool, node, shares_by_node.get((pool.name, node.name), ()))
        for node in pool.list_nodes()
    )
    return PoolSupply(pool=pool, nodes=tuple(nodes))


def _build_node_supply(
    pool: Pool, node: Node, reserved: Sequence[tuple[Reservation, Share]]
) -> NodeSupply:
    if node.state is NodeState.DRAINED:
        return NodeSupply(
            name=node.name,
            free_gpus=0,
            named_indices=frozenset(),
            is_known=False,
            free_host_bytes=0,
            free_slices={},
            claims=(Claim(hold=Hold.DRAINED, num_gpus=pool.gpus_per_node - node.mig_gpus),),
        )
    shares = [share for _, share in reserved]
    known_indices = _collect_indices(node, shares)
    num_taken = (
        node.allocated_gpus
        + node.mig_gpus
        + sum(share.num_gpus for share in shares if share.mig_profile is None)
    )
    return NodeSupply(
        name=node.name,
        # An inventory that counts a job which its reservation counts as well must not make the node
        # owe GPUs.
        free_gpus=max(pool.gpus_per_node - num_taken, 0),
        named_indices=known_indices,
        is_known=len(known_indices) == num_taken,
        free_host_bytes=_count_free_host_bytes(pool, node, shares),
        free_slices=_count_free_slices(node, shares),
        claims=(
            *_iter_used_claims(node),
            *(
                _make_reserved_claim(reservation, share)
                for reservation, share in reserved
                if share.mig_profile is None
            ),
        ),
    )


def _collect_indices(node: Node, shares: Sequence[Share]) -> frozenset[int]:
    if not node.allocations and not shares:
        return _NO_INDEX
    allocated_indices = (allocation.gpu_indices for allocation in node.allocations)
    reserved_indices = (share.gpu_indices for share in shares)
    return frozenset(
        index for indices in (*allocated_indices, *reserved_indices) for index in indices or ()
    )


def _count_free_host_bytes(pool: Pool, node: Node, shares: Sequence[Share]) -> int | None:
    if pool.host_memory_bytes is None:
        return None
    allocated_bytes = sum(allocation.host_memory_bytes for allocation in node.allocations)
    return max(
        pool.host_memory_bytes - allocated_bytes - sum(share.host_memory_bytes for share in shares),
        0,
    )


def _count_free_slices(node: Node, shares: Sequence[Share]) -> Mapping[str, int]:
    if not node.mig_slices:
        return _NO_SLICES
    reserved_slices = dict.fromkeys((slices.profile for slices in node.mig_slices), 0)
    for share in shares:
        if share.mig_profile in reserved_slices:
            reserved_slices[share.mig_profile] += share.num_gpus
    return {
        item.profile: max(item.total - item.allocated - reserved_slices[item.profile], 0)
        for item in node.mig_slices
    }


def _iter_used_claims(node: Node) -> Iterator[Claim]:
    for allocation in node.allocations:
        yield Claim(hold=Hold.USED, num_gpus=allocation.num_gpus, holder=allocation.holder)
    unnamed = node.allocated_gpus - sum(allocation.num_gpus for allocation in node.allocations)
    if unnamed:
        yield Claim(hold=Hold.USED, num_gpus=unnamed)
    if node.mig_gpus:
        yield Claim(hold=Hold.MIG, num_gpus=node.mig_gpus)


def _make_reserved_claim(reservation: Reservation, share: Share) -> Claim:
    return Claim(
        hold=Hold.RESERVED,
        num_gpus=share.num_gpus,
        holder=reservation.holder,
        until=reservation.expires_at,
    )
