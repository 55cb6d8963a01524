"""Grants of reservations: all that is requested, or the shortages."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from service.estimator.values.errors import InvalidInputError
from service.estimator.values.units import format_bytes
from service.planner.cluster.assignments import PlacementRequest
from service.planner.cluster.inventory import Node, NodeState, Pool
from service.planner.cluster.node_supply import NodeSupply
from service.planner.cluster.packing import find_placement
from service.planner.cluster.reservation import Reservation, Share
from service.planner.cluster.supply import Supply, build_supply

ANYWHERE = ""
"""In place of a node's name: any nodes of the pool."""
_LATER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Free capacity where it is too small for a request.

    On one node, or with ``node`` None in a whole pool; in slices of ``mig_profile``.
    """

    pool: str
    node: str | None
    wanted_gpus: int
    free_gpus: int
    reason: str
    mig_profile: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeEntry:
    """A node of the inventory with its current supply."""

    pool: Pool
    node: Node
    now: NodeSupply


_NodeIndex = Mapping[tuple[str, str], _NodeEntry]
Grant = tuple[tuple[Share, ...], tuple[Shortage, ...]]
"""The shares of everything, or nothing and the shortages."""


def grant(supply: Supply, requests: Sequence[Share], *, field: str = "gpus") -> Grant:
    """Grant all requests, one share per node, or return the shortages.

    GPUs that are requested ``ANYWHERE`` in a pool come from the fewest and fullest nodes. A request
    that names no place of the cluster, or more than that place will ever have, is refused; it is
    called ``field[index]``.
    """
    entries = _index_nodes(supply, {request.pool for request in requests})
    for index, request in enumerate(requests):
        _check_request(request, supply, entries, f"{field}[{index}]")
    named = _merge_shares(request for request in requests if request.node != ANYWHERE)
    shortages = tuple(
        lack for share in named for lack in _iter_shortages(entries[share.pool, share.node], share)
    )
    anywhere = [request for request in requests if request.node == ANYWHERE]
    if shortages or not anywhere:
        return ((), shortages) if shortages else (named, ())
    named_reservation = Reservation(holder="", shares=named, expires_at=_LATER)
    remaining = build_supply(supply.inventory, (*supply.reservations, named_reservation))
    return _grant_any_node(remaining, named, _merge_shares(anywhere))


def _grant_any_node(remaining: Supply, named: Sequence[Share], requests: Sequence[Share]) -> Grant:
    shares, shortages = list(named), list[Shortage]()
    for request in requests:
        pool = next(pool for pool in remaining.pools if pool.pool.name == request.pool)
        placement_request = PlacementRequest(
            gpus=(pool.pool.gpu,),
            gpus_per_replica=1,
            num_replicas=request.num_gpus,
            host_bytes_per_gpu=request.host_memory_bytes // request.num_gpus,
            mig_profile=request.mig_profile,
        )
        placement = find_placement(replace(remaining, pools=(pool,)), placement_request)
        if placement is None:
            shortages.append(_make_pool_shortage(pool.nodes, request))
        else:
            shares += [assignment.share for assignment in placement.assignments]
    # A node may have given to several wishes; by index only if each of them knew which.
    return ((), tuple(shortages)) if shortages else (_merge_shares(shares), ())


def _index_nodes(supply: Supply, pool_names: Collection[str]) -> _NodeIndex:
    return {
        (pool.pool.name, node.name): _NodeEntry(pool=pool.pool, node=node, now=now)
        for pool in supply.pools
        if pool.pool.name in pool_names
        for node, now in zip(pool.pool.list_nodes(), pool.nodes, strict=True)
    }


def _check_request(request: Share, supply: Supply, entries: _NodeIndex, field: str) -> None:
    pool_names = [pool.pool.name for pool in supply.pools]
    if request.pool not in pool_names:
        raise _make_refusal(
            f"{field}.pool", f"there is no pool {request.pool!r}; there are {', '.join(pool_names)}"
        )
    if request.node == ANYWHERE:
        if request.gpu_indices is not None:
            raise _make_refusal(f"{field}.gpu_indices", "gpu_indices are those of a node; name it")
        return
    entry = entries.get((request.pool, request.node))
    if entry is None:
        raise _make_refusal(f"{field}.node", f"pool {request.pool!r} has no node {request.node!r}")
    _check_size(request, entry, field)


def _check_size(request: Share, entry: _NodeEntry, field: str) -> None:
    node = entry.node
    if request.mig_profile is not None:
        total = sum(
            slices.total for slices in node.mig_slices if slices.profile == request.mig_profile
        )
        kind = f"slices {request.mig_profile!r}"
    else:
        total, kind = entry.pool.gpus_per_node - node.mig_gpus, "whole GPUs"
    if request.num_gpus > total:
        raise _make_refusal(
            f"{field}.num_gpus",
            f"node {node.name!r} has {total} {kind}, and {request.num_gpus} are wanted of it",
        )
    last = entry.pool.gpus_per_node - 1
    if any(not 0 <= index <= last for index in request.gpu_indices or ()):
        raise _make_refusal(
            f"{field}.gpu_indices", f"the GPUs of node {node.name!r} have the indices 0 to {last}"
        )


def _iter_shortages(entry: _NodeEntry, share: Share) -> Iterator[Shortage]:
    free = _count_free(entry.now, share)
    reason = _explain_shortage(
        entry.now, share, free, is_drained=entry.node.state is NodeState.DRAINED
    )
    if reason is not None:
        yield Shortage(
            pool=share.pool,
            node=share.node,
            wanted_gpus=share.num_gpus,
            free_gpus=free,
            reason=reason,
            mig_profile=share.mig_profile,
        )


def _explain_shortage(node: NodeSupply, share: Share, free: int, *, is_drained: bool) -> str | None:
    if is_drained:
        return f"{node.name} is drained"
    if free < share.num_gpus:
        kind = "" if share.mig_profile is None else f" {share.mig_profile} slices"
        return f"{node.name} has {free}{kind} free of the {share.num_gpus} that are wanted"
    taken_indices = sorted(node.named_indices & {*(share.gpu_indices or ())})
    if taken_indices:
        return f"GPU {', '.join(map(str, taken_indices))} of {node.name} is taken"
    if node.free_host_bytes is not None and share.host_memory_bytes > node.free_host_bytes:
        needed = format_bytes(share.host_memory_bytes)
        return (
            f"{node.name} has {format_bytes(node.free_host_bytes)} of host memory free of the "
            f"{needed} that are wanted"
        )
    return None


def _make_pool_shortage(nodes: Sequence[NodeSupply], request: Share) -> Shortage:
    free = sum(_count_free(node, request) for node in nodes)
    kind = "" if request.mig_profile is None else f" {request.mig_profile} slices"
    memory = (
        " with their host memory" if request.host_memory_bytes and free >= request.num_gpus else ""
    )
    return Shortage(
        pool=request.pool,
        node=None,
        wanted_gpus=request.num_gpus,
        free_gpus=free,
        reason=(
            f"pool {request.pool} has {free}{kind} free{memory} of the {request.num_gpus} that are "
            "wanted"
        ),
        mig_profile=request.mig_profile,
    )


def _count_free(node: NodeSupply, share: Share) -> int:
    return (
        node.free_gpus if share.mig_profile is None else node.free_slices.get(share.mig_profile, 0)
    )


def _merge_shares(shares: Iterable[Share]) -> tuple[Share, ...]:
    """Merge shares by node and profile.

    An index that is requested twice is refused.
    """
    merged: dict[tuple[str, str, str | None], Share] = {}
    for share in shares:
        key = (share.pool, share.node, share.mig_profile)
        previous = merged.get(key)
        merged[key] = share if previous is None else _add_shares(previous, share)
    return tuple(merged.values())


def _add_shares(left: Share, right: Share) -> Share:
    has_indices = left.gpu_indices is not None and right.gpu_indices is not None
    return replace(
        left,
        num_gpus=left.num_gpus + right.num_gpus,
        gpu_indices=(*(left.gpu_indices or ()), *(right.gpu_indices or ()))
        if has_indices
        else None,
        host_memory_bytes=left.host_memory_bytes + right.host_memory_bytes,
    )


def _make_refusal(field: str, message: str) -> InvalidInputError:
    return InvalidInputError(message, field=field)
