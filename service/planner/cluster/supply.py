"""A cluster as it stands: each node with what is free on it, and who holds the rest."""

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
Promised = Mapping[tuple[str, str], Sequence[tuple[Reservation, Share]]]


class Hold(StrEnum):
    """Why GPUs are not free."""

    USED = "used"
    RESERVED = "reserved"
    DRAINED = "drained"
    MIG = "mig"
    """Cut into slices, which are given out one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """GPUs that are not free; ``holder`` is None where nobody told who uses them, ``until`` where it has no end."""

    hold: Hold
    num_gpus: int
    holder: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSupply:
    """One node: its free whole GPUs, host memory and MIG slices.

    ``named_indices`` are taken for certain, and all that are taken if ``is_known``; ``free_host_bytes`` is None where the
    memory is not known.
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
        """GPUs that an empty pool could give: all that MIG has not cut."""
        return self.pool.total_gpus - sum(node.mig_gpus for node in self.pool.nodes or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSupply:
    """Pools whose nodes are all alike and cost the same, so that a job may span them.

    ``total_gpus`` are the whole GPUs of the empty pools: a plan for more can never run here. ``free_gpus`` are free now.
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
    """A cluster less what is reserved, and what that was reckoned from."""

    inventory: ClusterInventory
    reservations: tuple[Reservation, ...]
    pools: tuple[PoolSupply, ...]

    def kinds(self) -> tuple[KindSupply, ...]:
        """Return what a search may plan with: pools of one kind together, in the order of the inventory."""
        found: dict[Pool, list[PoolSupply]] = {}
        for pool in self.pools:
            found.setdefault(_kind(pool.pool), []).append(pool)
        return tuple(_kind_supply(pools) for pools in found.values())


def clusters_as_supply(cluster: ClusterInventory, reservations: Iterable[Reservation] = ()) -> Supply:
    """Return what a cluster can give beside ``reservations``, all of which count as live."""
    live = tuple(reservations)
    promised = _promised(live)
    pools = tuple(_pool_supply(pool, promised) for pool in cluster.pools)
    return Supply(inventory=cluster, reservations=live, pools=pools)


def released(supply: Supply, moment: datetime) -> Supply:
    """Return the same cluster at a later moment, when reservations will have expired and nothing else has changed."""
    left = tuple(reservation for reservation in supply.reservations if reservation.expires_at > moment)
    promised = _promised(left)
    ended = _promised(reservation for reservation in supply.reservations if reservation.expires_at <= moment)
    pools = (
        replace(
            pool,
            nodes=tuple(
                _node_supply(pool.pool, node, promised.get((pool.pool.name, node.name), ()))
                if (pool.pool.name, node.name) in ended
                else before
                for node, before in zip(pool.pool.members(), pool.nodes, strict=True)
            ),
        )
        for pool in supply.pools
    )
    return replace(supply, reservations=left, pools=tuple(pools))


def emptied(supply: Supply) -> Supply:
    """Return the same cluster with every node ready and nobody on it."""
    pools = (
        replace(pool, nodes=tuple(_emptied(pool.pool, *pair) for pair in zip(pool.pool.members(), pool.nodes, strict=True)))
        for pool in supply.pools
    )
    return replace(supply, reservations=(), pools=tuple(pools))


def _kind(pool: Pool) -> Pool:
    return replace(pool, name="", nodes=None, num_nodes=0)


def _kind_supply(pools: Sequence[PoolSupply]) -> KindSupply:
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
        free_slices=_added(node.free_slices for pool in pools for node in pool.nodes),
        total_slices=_added(
            {one.profile: one.total for one in node.mig_slices} for pool in pools for node in pool.pool.nodes or ()
        ),
    )


def _added(counts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


def _promised(reservations: Iterable[Reservation]) -> Promised:
    promised: dict[tuple[str, str], list[tuple[Reservation, Share]]] = {}
    for reservation in reservations:
        for share in reservation.shares:
            promised.setdefault((share.pool, share.node), []).append((reservation, share))
    return promised


def _emptied(pool: Pool, node: Node, now: NodeSupply) -> NodeSupply:
    if not now.claims and not node.mig_slices and now.free_host_bytes == pool.host_memory_bytes:
        return now
    slices = tuple(replace(slices, allocated=0) for slices in node.mig_slices)
    return _node_supply(pool, Node(name=node.name, mig_gpus=node.mig_gpus, mig_slices=slices), ())


def _pool_supply(pool: Pool, promised: Promised) -> PoolSupply:
    nodes = (_node_supply(pool, node, promised.get((pool.name, node.name), ())) for node in pool.members())
    return PoolSupply(pool=pool, nodes=tuple(nodes))


def _node_supply(pool: Pool, node: Node, promised: Sequence[tuple[Reservation, Share]]) -> NodeSupply:
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
    shares = [share for _, share in promised]
    named = _named_indices(node, shares)
    taken = node.allocated_gpus + node.mig_gpus + sum(share.num_gpus for share in shares if share.mig_profile is None)
    return NodeSupply(
        name=node.name,
        # An inventory that counts a job which its reservation counts as well must not make the node owe GPUs.
        free_gpus=max(pool.gpus_per_node - taken, 0),
        named_indices=named,
        is_known=len(named) == taken,
        free_host_bytes=_free_host_bytes(pool, node, shares),
        free_slices=_free_slices(node, shares),
        claims=(*_used(node), *(_reserved(reservation, share) for reservation, share in promised if share.mig_profile is None)),
    )


def _named_indices(node: Node, shares: Sequence[Share]) -> frozenset[int]:
    if not node.allocations and not shares:
        return _NO_INDEX
    held = (allocation.gpu_indices for allocation in node.allocations)
    promised = (share.gpu_indices for share in shares)
    return frozenset(index for indices in (*held, *promised) for index in indices or ())


def _free_host_bytes(pool: Pool, node: Node, shares: Sequence[Share]) -> int | None:
    if pool.host_memory_bytes is None:
        return None
    held = sum(allocation.host_memory_bytes for allocation in node.allocations)
    return max(pool.host_memory_bytes - held - sum(share.host_memory_bytes for share in shares), 0)


def _free_slices(node: Node, shares: Sequence[Share]) -> Mapping[str, int]:
    if not node.mig_slices:
        return _NO_SLICES
    held = dict.fromkeys((slices.profile for slices in node.mig_slices), 0)
    for share in shares:
        if share.mig_profile in held:
            held[share.mig_profile] += share.num_gpus
    return {one.profile: max(one.total - one.allocated - held[one.profile], 0) for one in node.mig_slices}


def _used(node: Node) -> Iterator[Claim]:
    for allocation in node.allocations:
        yield Claim(hold=Hold.USED, num_gpus=allocation.num_gpus, holder=allocation.holder)
    unnamed = node.allocated_gpus - sum(allocation.num_gpus for allocation in node.allocations)
    if unnamed:
        yield Claim(hold=Hold.USED, num_gpus=unnamed)
    if node.mig_gpus:
        yield Claim(hold=Hold.MIG, num_gpus=node.mig_gpus)


def _reserved(reservation: Reservation, share: Share) -> Claim:
    return Claim(hold=Hold.RESERVED, num_gpus=share.num_gpus, holder=reservation.holder, until=reservation.expires_at)
