"""Why there is no room, in one sentence: who holds the rest today, or what even the empty cluster lacks."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from service.estimator.values.units import format_bytes
from service.planner.cluster.assignments import Ask, Never, NotToday
from service.planner.cluster.packing import find_placement
from service.planner.cluster.supply import Claim, Hold, PoolSupply, Supply, released

MAX_NAMED = 4
"""Holders that a sentence names; the answer has all of them."""


def why_not_today(supply: Supply, ask: Ask) -> NotToday:
    """Say who holds what a job would need, for a job that the empty cluster could hold."""
    pools = _pools(supply, ask)
    free, total = _free(pools, ask), _total(pools, ask)
    claims = _added_up(_claims(supply, pools, ask))
    gpus = _label(ask)
    if free < ask.num_gpus:
        fact = f"{free} of {total} {gpus} {_are(free)} free and {ask.num_gpus} {_are(ask.num_gpus)} needed"
    else:
        fact = f"{free} of {total} {gpus} {_are(free)} free, but {_obstacle(supply, pools, ask)}"
    rest = f"; the rest is {_held(claims)}" if claims else ""
    return NotToday(
        reason=f"not today: {fact}{rest}",
        num_gpus=ask.num_gpus,
        free_gpus=free,
        total_gpus=total,
        claims=claims,
        possible_at=_possible_at(supply, ask),
    )


def why_never(empty: Supply, ask: Ask) -> Never:
    """Say what the empty cluster lacks."""
    pools = _pools(empty, ask)
    total = _total(pools, ask)
    return Never(reason=f"never: {_lack(empty, pools, ask, total)}", num_gpus=ask.num_gpus, total_gpus=total)


def _obstacle(supply: Supply, pools: Sequence[PoolSupply], ask: Ask) -> str:
    if find_placement(supply, replace(ask, host_bytes_per_gpu=0)) is not None:
        free_bytes = max(node.free_host_bytes or 0 for pool in pools for node in pool.nodes)
        needed = format_bytes(ask.host_bytes_per_gpu)
        return f"offload keeps {needed} per GPU in host memory, of which no node has more than {format_bytes(free_bytes)} free"
    if find_placement(supply, replace(ask, island_group=1)) is not None:
        return f"not in groups of {ask.island_group} on one NVLink island"
    most = max(node.free_gpus for pool in pools for node in pool.nodes)
    return f"scattered: no node has more than {most} and {ask.gpus_per_replica} must share equally many on each of their nodes"


def _lack(empty: Supply, pools: Sequence[PoolSupply], ask: Ask, total: int) -> str:
    gpus = _label(ask)
    if not total:
        return f"the cluster has no {gpus}"
    if total < ask.num_gpus:
        return f"the cluster has {total} {gpus} and {ask.num_gpus} {_are(ask.num_gpus)} needed"
    if find_placement(empty, replace(ask, host_bytes_per_gpu=0)) is not None:
        memory = max(pool.pool.host_memory_bytes or 0 for pool in pools)
        needed = format_bytes(ask.host_bytes_per_gpu)
        return f"offload keeps {needed} per GPU in host memory, and a node has {format_bytes(memory)}"
    if find_placement(empty, replace(ask, island_group=1)) is not None:
        islands = max(pool.pool.island_size for pool in pools)
        return f"groups of {ask.island_group} GPUs must share an NVLink island, and the largest of {gpus} has {islands}"
    per_node = max(pool.pool.gpus_per_node for pool in pools)
    return f"{ask.gpus_per_replica} GPUs cannot be spread evenly over nodes of {per_node} in this cluster"


def _claims(supply: Supply, pools: Sequence[PoolSupply], ask: Ask) -> Iterator[Claim]:
    if ask.mig_profile is None:
        yield from (claim for pool in pools for node in pool.nodes for claim in node.claims if claim.hold is not Hold.MIG)
        return
    names = {pool.pool.name for pool in pools}
    for node in (node for pool in pools for node in pool.pool.members()):
        held = sum(slices.allocated for slices in node.mig_slices if slices.profile == ask.mig_profile)
        if held:
            yield Claim(hold=Hold.USED, num_gpus=held)
    for reservation in supply.reservations:
        for share in reservation.shares:
            if share.pool in names and share.mig_profile == ask.mig_profile:
                yield Claim(
                    hold=Hold.RESERVED, num_gpus=share.num_gpus, holder=reservation.holder, until=reservation.expires_at
                )


def _added_up(claims: Iterator[Claim]) -> tuple[Claim, ...]:
    """Return one claim per holder, held until the last of them ends; the largest first."""
    found: dict[tuple[Hold, str | None], Claim] = {}
    for claim in claims:
        key = (claim.hold, claim.holder)
        before = found.get(key)
        if before is not None:
            until = max((moment for moment in (before.until, claim.until) if moment is not None), default=None)
            claim = replace(claim, num_gpus=before.num_gpus + claim.num_gpus, until=until)  # noqa: PLW2901  # the sum so far
        found[key] = claim
    return tuple(sorted(found.values(), key=lambda claim: -claim.num_gpus))


def _held(claims: Sequence[Claim]) -> str:
    said = [_in_words(claim) for claim in claims[:MAX_NAMED]]
    if len(claims) > MAX_NAMED:
        said.append(f"held by {len(claims) - MAX_NAMED} more")
    return ", ".join(said)


def _in_words(claim: Claim) -> str:
    match claim.hold:
        case Hold.DRAINED:
            return f"drained ({claim.num_gpus})"
        case Hold.RESERVED:
            until = "" if claim.until is None else f" until {_moment(claim.until)}"
            return f"reserved by {claim.holder} ({claim.num_gpus}){until}"
        case _:
            return f"used by {claim.holder or 'others'} ({claim.num_gpus})"


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%MZ")


def _possible_at(supply: Supply, ask: Ask) -> datetime | None:
    """Return when the first so many reservations to expire make room: with each that ends there is more of it."""
    moments = sorted({reservation.expires_at for reservation in supply.reservations})

    def has_room(moment: datetime) -> bool:
        return find_placement(released(supply, moment), ask) is not None

    if not moments or not has_room(moments[-1]):
        return None
    return moments[bisect_left(moments, True, hi=len(moments) - 1, key=has_room)]  # noqa: FBT003  # the first True


def _pools(supply: Supply, ask: Ask) -> list[PoolSupply]:
    return [pool for pool in supply.pools if pool.pool.gpu in ask.gpus]


def _free(pools: Sequence[PoolSupply], ask: Ask) -> int:
    if ask.mig_profile is None:
        return sum(pool.free_gpus for pool in pools)
    return sum(node.free_slices.get(ask.mig_profile, 0) for pool in pools for node in pool.nodes)


def _total(pools: Sequence[PoolSupply], ask: Ask) -> int:
    members = [node for pool in pools for node in pool.pool.members()]
    if ask.mig_profile is None:
        return sum(pool.pool.total_gpus for pool in pools) - sum(node.mig_gpus for node in members)
    return sum(slices.total for node in members for slices in node.mig_slices if slices.profile == ask.mig_profile)


def _label(ask: Ask) -> str:
    gpus = " or ".join(ask.gpus)
    return gpus if ask.mig_profile is None else f"{ask.mig_profile} slices of {gpus}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
