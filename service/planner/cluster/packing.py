"""Finds seats: fewest nodes first, of those the fullest that suffice, the cheapest pool before others."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import inf

from service.planner.cluster.assignments import Ask, Placement, Seat
from service.planner.cluster.inventory import Pool
from service.planner.cluster.node_capacity import Room, nodes_per_island, rooms_of
from service.planner.cluster.supply import PoolSupply, Supply


def find_placement(supply: Supply, ask: Ask) -> Placement | None:
    """Return where the job runs today; None when there is no room for all of it.

    One replica has equally many GPUs on each of its nodes, as launchers want it, and never more than one SKU. Nodes of
    several pools are taken together only where no single pool suffices, and only of pools of the same kind.
    """
    seats: list[Seat] = []
    for sku in ask.gpus:
        pools = sorted((pool for pool in supply.pools if pool.pool.gpu == sku), key=_price)
        missing = range(_num_replicas(seats), ask.num_replicas)
        seats += _slices(pools, ask, missing) if ask.mig_profile else _whole_gpus(pools, ask, missing)
        if _num_replicas(seats) == ask.num_replicas:
            return _placement(tuple(seats), supply, ask)
    return None


def shapes(pool: Pool, ask: Ask) -> tuple[int, ...]:
    """Return how many GPUs per node a replica can have, the most first, so that no group leaves its NVLink island."""
    per_replica, group = ask.gpus_per_replica, ask.island_group
    most = min(pool.gpus_per_node, per_replica)
    if group > pool.island_size:
        return ()
    return tuple(
        per_node for per_node in range(most, 0, -1) if per_replica % per_node == 0 and _groups_stay(pool, group, per_node)
    )


def _groups_stay(pool: Pool, group: int, per_node: int) -> bool:
    """Whether whole groups fit on a node, or whole nodes make up a group inside an island of several nodes."""
    return per_node % group == 0 or (group % per_node == 0 and group // per_node <= nodes_per_island(pool))


def _whole_gpus(pools: Sequence[PoolSupply], ask: Ask, replicas: range) -> list[Seat]:
    if sum(pool.free_gpus for pool in pools) < ask.gpus_per_replica:
        return []
    rooms = {pool.pool.name: rooms_of([pool]) for pool in pools}
    seats: list[Seat] = []
    for per_node in sorted({shape for pool in pools for shape in shapes(pool.pool, ask)}, reverse=True):
        for scope in _scopes([pool.pool for pool in pools if per_node in shapes(pool.pool, ask)]):
            missing = replicas[_num_replicas(seats) :]
            if not missing:
                return seats
            seats += _fill([room for pool in scope for room in rooms[pool.name]], per_node, ask, missing)
    return seats


def _scopes(pools: Sequence[Pool]) -> Iterator[Sequence[Pool]]:
    """Yield each pool alone, then those of one kind together."""
    yield from ([pool] for pool in pools)
    kinds = groupby(sorted(pools, key=_kind), key=_kind)
    yield from (together for together in (list(found) for _, found in kinds) if len(together) > 1)


def _kind(pool: Pool) -> tuple[int, int]:
    return pool.gpus_per_node, pool.island_size


def _fill(rooms: Sequence[Room], per_node: int, ask: Ask, replicas: range) -> list[Seat]:
    """Seat as many of the replicas as there is room for with so many GPUs per node."""
    if per_node == ask.gpus_per_replica:
        capacities = [(room.capacity(ask, per_node) // per_node, room.free, room) for room in rooms]
        chosen = _fewest(capacities, len(replicas))
        return [room.take(per_node, ask, replica) for replica, room in zip(replicas, chosen, strict=False)]
    seats: list[Seat] = []
    islands = _by_island([room for room in rooms if room.capacity(ask, per_node) >= per_node])
    for replica in replicas:
        chosen = _across(islands, ask.gpus_per_replica // per_node, max(ask.island_group // per_node, 1))
        if not chosen:
            return seats
        seats += [room.take(per_node, ask, replica) for room in chosen]
    return seats


def _fewest(capacities: Sequence[tuple[int, int, Room]], num_wanted: int) -> list[Room]:
    """Return a room for each of so many equal jobs, or for as many as fit: full nodes first, the last on the fullest."""
    left = sorted((entry for entry in capacities if entry[0]), key=lambda entry: entry[:2])
    chosen: list[Room] = []
    while left and len(chosen) < num_wanted:
        enough = bisect_left(left, num_wanted - len(chosen), key=lambda entry: entry[0])
        capacity, _, room = left.pop(enough if enough < len(left) else -1)
        chosen += [room] * min(capacity, num_wanted - len(chosen))
    return chosen


def _by_island(rooms: Sequence[Room]) -> list[list[Room]]:
    """Return rooms that reach each other over NVLink together, else all of them, each list with the fullest node first."""
    found: dict[object, list[Room]] = {}
    for room in rooms:
        span = nodes_per_island(room.pool)
        found.setdefault((room.pool.name, room.position // span) if span > 1 else None, []).append(room)
    # Nodes are popped from the end.
    return [sorted(island, key=lambda room: (room.free, room.position), reverse=True) for island in found.values()]


def _across(islands: list[list[Room]], num_nodes: int, group_nodes: int) -> list[Room]:
    """Take nodes out of the fullest island that has enough, else out of as few as possible; nothing when there are too few."""
    enough = [island for island in islands if len(island) >= num_nodes]
    if enough:
        return _pop(min(enough, key=len), num_nodes)
    if sum(len(island) // group_nodes * group_nodes for island in islands) < num_nodes:
        return []
    chosen: list[Room] = []
    for island in sorted(islands, key=len, reverse=True):
        chosen += _pop(island, min(len(island), num_nodes - len(chosen)) // group_nodes * group_nodes)
    return chosen


def _pop(island: list[Room], num_nodes: int) -> list[Room]:
    return [island.pop() for _ in range(num_nodes)]


def _slices(pools: Sequence[PoolSupply], ask: Ask, replicas: range) -> list[Seat]:
    chosen = _fewest([(room.slices(ask), room.free, room) for room in rooms_of(pools)], len(replicas))
    return [room.take_slice(ask, replica) for replica, room in zip(replicas, chosen, strict=False)]


def _placement(seats: tuple[Seat, ...], supply: Supply, ask: Ask) -> Placement:
    pools = {pool.pool.name: pool.pool for pool in supply.pools}
    used = [pools[name] for name in dict.fromkeys(seat.share.pool for seat in seats)]
    counts = {seat.share.num_gpus for seat in seats}
    return Placement(
        seats=seats,
        gpus_per_node=counts.pop() if len(counts) == 1 else None,
        cost_per_hour=None if ask.mig_profile else _cost_per_hour(seats, pools),
        notes=tuple(_notes(used, seats, ask)),
    )


def _cost_per_hour(seats: Sequence[Seat], pools: dict[str, Pool]) -> float | None:
    cost = 0.0
    for seat in seats:
        price = pools[seat.share.pool].price_per_gpu_hour
        if price is None:
            return None
        cost += price * seat.share.num_gpus
    return cost


def _notes(used: Sequence[Pool], seats: Sequence[Seat], ask: Ask) -> Iterator[str]:
    silent = [pool.name for pool in used if pool.host_memory_bytes is None]
    if ask.host_bytes_per_gpu and silent:
        yield f"the host memory of {' and '.join(silent)} is not known, so that offload was not held against it"
    if _spans_pools(seats):
        yield f"it spans the pools {' and '.join(pool.name for pool in used)}, which must reach each other over the network"
    per_node = max(seat.share.num_gpus for seat in seats)
    most = min(ask.gpus_per_replica, *(pool.gpus_per_node for pool in used))
    if per_node < most:
        yield f"it has {per_node} GPUs per node where {most} would do on fewer nodes: more of its traffic crosses the network"


def _spans_pools(seats: Sequence[Seat]) -> bool:
    pools_of: dict[int, set[str]] = {}
    for seat in seats:
        pools_of.setdefault(seat.replica, set()).add(seat.share.pool)
    return any(len(pools) > 1 for pools in pools_of.values())


def _num_replicas(seats: Sequence[Seat]) -> int:
    return len({seat.replica for seat in seats})


def _price(pool: PoolSupply) -> float:
    return inf if pool.pool.price_per_gpu_hour is None else pool.pool.price_per_gpu_hour
