"""Supply of one node: what is free, and its claims."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from service.planner.cluster.inventory import Node, NodeState, Pool
from service.planner.cluster.reservation import Reservation, Share

_NO_INDEX: frozenset[int] = frozenset()
_NO_SLICES: Mapping[str, int] = MappingProxyType({})


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
    levels: tuple[str, ...] = ()
    """Its places in the network, outermost first; empty where they are not known."""

    @property
    def reserved_gpus(self) -> int:
        """Whole GPUs that reservations hold."""
        return sum(claim.num_gpus for claim in self.claims if claim.hold is Hold.RESERVED)


def build_node_supply(
    pool: Pool, node: Node, reserved: Sequence[tuple[Reservation, Share]]
) -> NodeSupply:
    """Build one node's supply beside what reservations hold of it."""
    if node.state is NodeState.DRAINED:
        return NodeSupply(
            name=node.name,
            free_gpus=0,
            named_indices=frozenset(),
            is_known=False,
            free_host_bytes=0,
            free_slices={},
            claims=(Claim(hold=Hold.DRAINED, num_gpus=pool.gpus_per_node - node.mig_gpus),),
            levels=node.levels,
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
        levels=node.levels,
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
