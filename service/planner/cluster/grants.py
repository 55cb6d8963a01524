"""Whether what somebody wants to reserve is free: all of it, or nothing and the reason."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from service.estimator.values.errors import InvalidInputError
from service.estimator.values.units import format_bytes
from service.planner.cluster.assignments import Ask
from service.planner.cluster.inventory import Node, NodeState, Pool
from service.planner.cluster.packing import find_placement
from service.planner.cluster.reservation import Reservation, Share
from service.planner.cluster.supply import NodeSupply, Supply, clusters_as_supply

ANYWHERE = ""
"""In place of a node's name: any nodes of the pool."""
_LATER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """What is free where too little is: on one node, or with ``node`` None in a whole pool; in slices of ``mig_profile``."""

    pool: str
    node: str | None
    wanted_gpus: int
    free_gpus: int
    reason: str
    mig_profile: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A node as it is in the inventory and as it is now."""

    pool: Pool
    node: Node
    now: NodeSupply


_Places = Mapping[tuple[str, str], _Place]
Grant = tuple[tuple[Share, ...], tuple[Lack, ...]]
"""The shares of everything, or nothing and what is lacking."""


def grant(supply: Supply, wishes: Sequence[Share], *, field: str = "gpus") -> Grant:
    """Return the shares that fulfil every wish, one per node, or what is lacking.

    GPUs that are wanted ``ANYWHERE`` in a pool come from the fewest and fullest nodes. A wish that names no place of the
    cluster, or more than that place will ever have, is refused; it is called ``field[index]``.
    """
    places = _places(supply, {wish.pool for wish in wishes})
    for index, wish in enumerate(wishes):
        _check(wish, supply, places, f"{field}[{index}]")
    named = _merged(wish for wish in wishes if wish.node != ANYWHERE)
    lacks = tuple(lack for share in named for lack in _lacks(places[share.pool, share.node], share))
    anywhere = [wish for wish in wishes if wish.node == ANYWHERE]
    if lacks or not anywhere:
        return ((), lacks) if lacks else (named, ())
    before = Reservation(holder="", shares=named, expires_at=_LATER)
    left = clusters_as_supply(supply.inventory, (*supply.reservations, before))
    return _with_any_node(left, named, _merged(anywhere))


def _with_any_node(left: Supply, named: Sequence[Share], wanted: Sequence[Share]) -> Grant:
    shares, lacks = list(named), list[Lack]()
    for wish in wanted:
        pool = next(pool for pool in left.pools if pool.pool.name == wish.pool)
        ask = Ask(
            gpus=(pool.pool.gpu,),
            gpus_per_replica=1,
            num_replicas=wish.num_gpus,
            host_bytes_per_gpu=wish.host_memory_bytes // wish.num_gpus,
            mig_profile=wish.mig_profile,
        )
        found = find_placement(replace(left, pools=(pool,)), ask)
        if found is None:
            lacks.append(_lack_of_pool(pool.nodes, wish))
        else:
            shares += [seat.share for seat in found.seats]
    # A node may have given to several wishes; by index only if each of them knew which.
    return ((), tuple(lacks)) if lacks else (_merged(shares), ())


def _places(supply: Supply, wanted: Collection[str]) -> _Places:
    return {
        (pool.pool.name, node.name): _Place(pool=pool.pool, node=node, now=now)
        for pool in supply.pools
        if pool.pool.name in wanted
        for node, now in zip(pool.pool.members(), pool.nodes, strict=True)
    }


def _check(wish: Share, supply: Supply, places: _Places, field: str) -> None:
    known = [pool.pool.name for pool in supply.pools]
    if wish.pool not in known:
        raise _refusal(f"{field}.pool", f"there is no pool {wish.pool!r}; there are {', '.join(known)}")
    if wish.node == ANYWHERE:
        if wish.gpu_indices is not None:
            raise _refusal(f"{field}.gpu_indices", "gpu_indices are those of a node; name it")
        return
    place = places.get((wish.pool, wish.node))
    if place is None:
        raise _refusal(f"{field}.node", f"pool {wish.pool!r} has no node {wish.node!r}")
    _check_size(wish, place, field)


def _check_size(wish: Share, place: _Place, field: str) -> None:
    node = place.node
    if wish.mig_profile is not None:
        total = sum(slices.total for slices in node.mig_slices if slices.profile == wish.mig_profile)
        kind = f"slices {wish.mig_profile!r}"
    else:
        total, kind = place.pool.gpus_per_node - node.mig_gpus, "whole GPUs"
    if wish.num_gpus > total:
        raise _refusal(f"{field}.num_gpus", f"node {node.name!r} has {total} {kind}, and {wish.num_gpus} are wanted of it")
    last = place.pool.gpus_per_node - 1
    if any(not 0 <= index <= last for index in wish.gpu_indices or ()):
        raise _refusal(f"{field}.gpu_indices", f"the GPUs of node {node.name!r} have the indices 0 to {last}")


def _lacks(place: _Place, share: Share) -> Iterator[Lack]:
    free = _free(place.now, share)
    reason = _reason(place.now, share, free, is_drained=place.node.state is NodeState.DRAINED)
    if reason is not None:
        yield Lack(
            pool=share.pool,
            node=share.node,
            wanted_gpus=share.num_gpus,
            free_gpus=free,
            reason=reason,
            mig_profile=share.mig_profile,
        )


def _reason(node: NodeSupply, share: Share, free: int, *, is_drained: bool) -> str | None:
    if is_drained:
        return f"{node.name} is drained"
    if free < share.num_gpus:
        kind = "" if share.mig_profile is None else f" {share.mig_profile} slices"
        return f"{node.name} has {free}{kind} free of the {share.num_gpus} that are wanted"
    taken = sorted(node.named_indices & {*(share.gpu_indices or ())})
    if taken:
        return f"GPU {', '.join(map(str, taken))} of {node.name} is taken"
    if node.free_host_bytes is not None and share.host_memory_bytes > node.free_host_bytes:
        wanted = format_bytes(share.host_memory_bytes)
        return f"{node.name} has {format_bytes(node.free_host_bytes)} of host memory free of the {wanted} that are wanted"
    return None


def _lack_of_pool(nodes: Sequence[NodeSupply], wish: Share) -> Lack:
    free = sum(_free(node, wish) for node in nodes)
    kind = "" if wish.mig_profile is None else f" {wish.mig_profile} slices"
    memory = " with their host memory" if wish.host_memory_bytes and free >= wish.num_gpus else ""
    return Lack(
        pool=wish.pool,
        node=None,
        wanted_gpus=wish.num_gpus,
        free_gpus=free,
        reason=f"pool {wish.pool} has {free}{kind} free{memory} of the {wish.num_gpus} that are wanted",
        mig_profile=wish.mig_profile,
    )


def _free(node: NodeSupply, share: Share) -> int:
    return node.free_gpus if share.mig_profile is None else node.free_slices.get(share.mig_profile, 0)


def _merged(shares: Iterable[Share]) -> tuple[Share, ...]:
    """Return one share per node and profile; an index that is wanted twice is refused."""
    found: dict[tuple[str, str, str | None], Share] = {}
    for share in shares:
        key = (share.pool, share.node, share.mig_profile)
        before = found.get(key)
        found[key] = share if before is None else _sum(before, share)
    return tuple(found.values())


def _sum(one: Share, other: Share) -> Share:
    known = one.gpu_indices is not None and other.gpu_indices is not None
    return replace(
        one,
        num_gpus=one.num_gpus + other.num_gpus,
        gpu_indices=(*(one.gpu_indices or ()), *(other.gpu_indices or ())) if known else None,
        host_memory_bytes=one.host_memory_bytes + other.host_memory_bytes,
    )


def _refusal(field: str, message: str) -> InvalidInputError:
    return InvalidInputError(message, field=field)
