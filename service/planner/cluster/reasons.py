"""Reasons for missing room, in one sentence each.

Who holds the rest now, or what even the empty cluster lacks.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from service.estimator.values.units import format_bytes
from service.planner.cluster.assignments import Blocked, Impossible, PlacementRequest
from service.planner.cluster.node_supply import Claim, Hold
from service.planner.cluster.packing import find_placement
from service.planner.cluster.supply import PoolSupply, Supply, release_expired

MAX_NAMED = 4
"""Holders that a sentence names; the answer has all of them."""


def explain_blocked(supply: Supply, request: PlacementRequest) -> Blocked:
    """Explain who holds the GPUs that a job needs.

    The empty cluster could hold the job.
    """
    pools = _select_pools(supply, request)
    free, total = _count_free(pools, request), _count_total(pools, request)
    claims = _merge_claims(_iter_claims(supply, pools, request))
    gpus = _format_gpus(request)
    if free < request.num_gpus:
        fact = (
            f"{free} of {total} {gpus} {_get_verb(free)} free and {request.num_gpus} "
            f"{_get_verb(request.num_gpus)} needed"
        )
    else:
        fact = (
            f"{free} of {total} {gpus} {_get_verb(free)} free, but "
            f"{_explain_obstacle(supply, pools, request)}"
        )
    suffix = f"; the rest is {_format_claims(claims)}" if claims else ""
    return Blocked(
        reason=f"not today: {fact}{suffix}",
        num_gpus=request.num_gpus,
        free_gpus=free,
        total_gpus=total,
        claims=claims,
        possible_at=_find_possible_time(supply, request),
    )


def explain_impossible(empty: Supply, request: PlacementRequest) -> Impossible:
    """Explain what the empty cluster lacks."""
    pools = _select_pools(empty, request)
    total = _count_total(pools, request)
    return Impossible(
        reason=f"never: {_explain_shortage(empty, pools, request, total)}",
        num_gpus=request.num_gpus,
        total_gpus=total,
    )


def _explain_obstacle(
    supply: Supply, pools: Sequence[PoolSupply], request: PlacementRequest
) -> str:
    if find_placement(supply, replace(request, host_bytes_per_gpu=0)) is not None:
        free_bytes = max(node.free_host_bytes or 0 for pool in pools for node in pool.nodes)
        needed = format_bytes(request.host_bytes_per_gpu)
        return (
            f"offload keeps {needed} per GPU in host memory, of which no node has more than "
            f"{format_bytes(free_bytes)} free"
        )
    if find_placement(supply, replace(request, island_group=1)) is not None:
        return f"not in groups of {request.island_group} on one NVLink island"
    max_free = max(node.free_gpus for pool in pools for node in pool.nodes)
    return (
        f"scattered: no node has more than {max_free} and {request.gpus_per_replica} must share "
        "equally many on each of their nodes"
    )


def _explain_shortage(
    empty: Supply, pools: Sequence[PoolSupply], request: PlacementRequest, total: int
) -> str:
    gpus = _format_gpus(request)
    if not total:
        return f"the cluster has no {gpus}"
    if total < request.num_gpus:
        return (
            f"the cluster has {total} {gpus} and {request.num_gpus} {_get_verb(request.num_gpus)} "
            "needed"
        )
    if find_placement(empty, replace(request, host_bytes_per_gpu=0)) is not None:
        memory = max(pool.pool.host_memory_bytes or 0 for pool in pools)
        needed = format_bytes(request.host_bytes_per_gpu)
        return (
            f"offload keeps {needed} per GPU in host memory, and a node has {format_bytes(memory)}"
        )
    if find_placement(empty, replace(request, island_group=1)) is not None:
        islands = max(pool.pool.island_size for pool in pools)
        return (
            f"groups of {request.island_group} GPUs must share an NVLink island, and the largest "
            f"of {gpus} has {islands}"
        )
    per_node = max(pool.pool.gpus_per_node for pool in pools)
    return (
        f"{request.gpus_per_replica} GPUs cannot be spread evenly over nodes of {per_node} in this "
        "cluster"
    )


def _iter_claims(
    supply: Supply, pools: Sequence[PoolSupply], request: PlacementRequest
) -> Iterator[Claim]:
    if request.mig_profile is None:
        yield from (
            claim
            for pool in pools
            for node in pool.nodes
            for claim in node.claims
            if claim.hold is not Hold.MIG
        )
        return
    names = {pool.pool.name for pool in pools}
    for node in (node for pool in pools for node in pool.pool.list_nodes()):
        num_allocated = sum(
            slices.allocated for slices in node.mig_slices if slices.profile == request.mig_profile
        )
        if num_allocated:
            yield Claim(hold=Hold.USED, num_gpus=num_allocated)
    for reservation in supply.reservations:
        for share in reservation.shares:
            if share.pool in names and share.mig_profile == request.mig_profile:
                yield Claim(
                    hold=Hold.RESERVED,
                    num_gpus=share.num_gpus,
                    holder=reservation.holder,
                    until=reservation.expires_at,
                )


def _merge_claims(claims: Iterator[Claim]) -> tuple[Claim, ...]:
    """Merge claims by holder, the largest first.

    A holder's claim lasts until the last of them ends.
    """
    merged: dict[tuple[Hold, str | None], Claim] = {}
    for claim in claims:
        key = (claim.hold, claim.holder)
        previous = merged.get(key)
        if previous is not None:
            until = max(
                (moment for moment in (previous.until, claim.until) if moment is not None),
                default=None,
            )
            claim = replace(claim, num_gpus=previous.num_gpus + claim.num_gpus, until=until)  # noqa: PLW2901 - the sum so far
        merged[key] = claim
    return tuple(sorted(merged.values(), key=lambda claim: -claim.num_gpus))


def _format_claims(claims: Sequence[Claim]) -> str:
    phrases = [_format_claim(claim) for claim in claims[:MAX_NAMED]]
    if len(claims) > MAX_NAMED:
        phrases.append(f"held by {len(claims) - MAX_NAMED} more")
    return ", ".join(phrases)


def _format_claim(claim: Claim) -> str:
    match claim.hold:
        case Hold.DRAINED:
            return f"drained ({claim.num_gpus})"
        case Hold.RESERVED:
            until = "" if claim.until is None else f" until {_format_moment(claim.until)}"
            return f"reserved by {claim.holder} ({claim.num_gpus}){until}"
        case _:
            return f"used by {claim.holder or 'others'} ({claim.num_gpus})"


def _format_moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%MZ")


def _find_possible_time(supply: Supply, request: PlacementRequest) -> datetime | None:
    """Return the earliest expiry that makes room.

    With each reservation that ends there is more room.
    """
    moments = sorted({reservation.expires_at for reservation in supply.reservations})

    def has_room(moment: datetime) -> bool:
        return find_placement(release_expired(supply, moment), request) is not None

    if not moments or not has_room(moments[-1]):
        return None
    return moments[bisect_left(moments, True, hi=len(moments) - 1, key=has_room)]  # noqa: FBT003 - the first True


def _select_pools(supply: Supply, request: PlacementRequest) -> list[PoolSupply]:
    return [pool for pool in supply.pools if pool.pool.gpu in request.gpus]


def _count_free(pools: Sequence[PoolSupply], request: PlacementRequest) -> int:
    if request.mig_profile is None:
        return sum(pool.free_gpus for pool in pools)
    return sum(
        node.free_slices.get(request.mig_profile, 0) for pool in pools for node in pool.nodes
    )


def _count_total(pools: Sequence[PoolSupply], request: PlacementRequest) -> int:
    members = [node for pool in pools for node in pool.pool.list_nodes()]
    if request.mig_profile is None:
        return sum(pool.pool.total_gpus for pool in pools) - sum(node.mig_gpus for node in members)
    return sum(
        slices.total
        for node in members
        for slices in node.mig_slices
        if slices.profile == request.mig_profile
    )


def _format_gpus(request: PlacementRequest) -> str:
    gpus = " or ".join(request.gpus)
    return gpus if request.mig_profile is None else f"{request.mig_profile} slices of {gpus}"


def _get_verb(number: int) -> str:
    return "is" if number == 1 else "are"
