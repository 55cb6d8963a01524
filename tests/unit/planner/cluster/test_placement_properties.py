"""Whatever the cluster: no node gives what it does not have, no island is split, and waiting is
told from never.
"""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from service.planner.cluster.inventory import (
    Allocation,
    ClusterInventory,
    MigSlices,
    Node,
    NodeState,
    Pool,
)
from service.planner.cluster.node_capacity import list_node_capacities
from service.planner.cluster.placement import (
    Blocked,
    Impossible,
    Placement,
    PlacementRequest,
    Supply,
    build_supply,
    find_placement,
    place,
)
from service.planner.cluster.reservation import Reservation, Share
from service.planner.cluster.supply import PoolSupply, clear_supply

SKUS = ("A100-SXM4-80GB", "H100-SXM5-80GB")
PROFILE = "1g.10gb"
LATER = datetime(2026, 5, 1, tzinfo=UTC)

# A strategy that is made for each draw costs more than the draw.
_up_to = cache(partial(st.integers, 0))
_BOOLEANS = st.booleans()
_STATES = st.sampled_from([*[NodeState.READY] * 3, NodeState.DRAINED])
_GPUS_PER_NODE = st.sampled_from([8, 4, 2, 1])
_NUM_NODES = st.sampled_from([8, 5, 2, 0])
_NUM_POOLS = st.integers(1, 3)
_GPUS = st.sampled_from([*SKUS[:1] * 3, SKUS[1]])
_HOST_BYTES = st.none() | st.integers(60, 400)
_PRICES = st.none() | st.sampled_from([1.0, 2.0])


@st.composite
def node(draw: st.DrawFn, name: str, gpus_per_node: int) -> Node:
    """Draw a node: free, or some of its GPUs held by index, some without, some cut by MIG."""
    if draw(_BOOLEANS):
        return Node(name=name)
    # One number holds a bit for each GPU: a set would be many draws.
    mask = draw(_up_to(2**gpus_per_node - 1))
    indices = [index for index in range(gpus_per_node) if mask >> index & 1]
    unnamed = draw(_up_to(gpus_per_node - len(indices)))
    cut = draw(_up_to(gpus_per_node - len(indices) - unnamed))
    total = draw(_up_to(7 * cut))
    named = Allocation(
        holder="a",
        num_gpus=len(indices),
        gpu_indices=tuple(indices),
        host_memory_bytes=draw(_up_to(60)),
    )
    return Node(
        name=name,
        allocated_gpus=len(indices) + unnamed,
        state=draw(_STATES),
        allocations=(named,),
        mig_gpus=cut,
        mig_slices=(MigSlices(profile=PROFILE, total=total, allocated=draw(_up_to(total))),)
        if cut
        else (),
    )


@cache
def _list_island_sizes(gpus_per_node: int) -> st.SearchStrategy[int | None]:
    """Return the sizes of NVLink islands: racks, halves of nodes, nodes, single GPUs."""
    return st.sampled_from([gpus_per_node * 2, max(gpus_per_node // 2, 1), None, 1])


@st.composite
def pool(draw: st.DrawFn, name: str) -> Pool:
    """Draw a pool whose islands are parts of a node, nodes, or racks of two nodes."""
    gpus_per_node = draw(_GPUS_PER_NODE)
    names = [f"n{number}" for number in range(draw(_NUM_NODES))]
    return Pool(
        name=name,
        gpu=draw(_GPUS),
        gpus_per_node=gpus_per_node,
        nvlink_island_size=draw(_list_island_sizes(gpus_per_node)),
        host_memory_bytes=draw(_HOST_BYTES),
        price_per_gpu_hour=draw(_PRICES),
        nodes=tuple(draw(node(name, gpus_per_node)) for name in names),
    )


@st.composite
def supplies(draw: st.DrawFn) -> Supply:
    """Draw a cluster of up to three pools with some reservations, all of which could be
    promised.
    """
    cluster = ClusterInventory(
        pools=tuple(draw(pool(f"p{number}")) for number in range(draw(_NUM_POOLS)))
    )
    promised = []
    for found in build_supply(cluster).pools:
        for one in found.nodes:
            if one.free_gpus and draw(_up_to(3)) == 3:  # of four nodes one
                share = Share(
                    pool=found.pool.name,
                    node=one.name,
                    num_gpus=1 + draw(_up_to(one.free_gpus - 1)),
                )
                promised.append(Reservation(holder="b", shares=(share,), expires_at=LATER))
    return build_supply(cluster, promised)


@st.composite
def asks(draw: st.DrawFn) -> PlacementRequest:
    """Draw a training job, replicas to serve, or jobs on slices."""
    gpus = draw(st.sampled_from([SKUS[:1], SKUS[:1], SKUS, SKUS[1:]]))
    group, host_bytes = draw(st.sampled_from([4, 2, 8, 1])), draw(st.sampled_from([0, 0, 10, 40]))
    if draw(st.integers(0, 5)) == 5:  # of six one
        return PlacementRequest(
            gpus=gpus, gpus_per_replica=1, num_replicas=draw(st.integers(1, 9)), mig_profile=PROFILE
        )
    return PlacementRequest(
        gpus=gpus,
        gpus_per_replica=group * draw(st.integers(1, 4)),
        num_replicas=draw(st.integers(1, 4)),
        island_group=group,
        host_bytes_per_gpu=host_bytes,
    )


@settings(max_examples=150)
@given(supplies(), asks())
def test_nobody_is_given_what_is_not_free(supply: Supply, asked: PlacementRequest) -> None:
    """GPUs, slices and host memory of every node suffice for all that is placed on it, and no index
    is taken twice.
    """
    found = find_placement(supply, asked)
    if found is None:
        return

    nodes = {(pool.pool.name, node.name): node for pool in supply.pools for node in pool.nodes}
    given_away, host = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    indices = Counter[tuple[str, str, int]]()
    for seat in found.assignments:
        place_ = (seat.share.pool, seat.share.node)
        given_away[place_] += seat.share.num_gpus
        host[place_] += seat.share.host_memory_bytes
        indices.update((*place_, index) for index in seat.share.gpu_indices or ())
        assert not nodes[place_].named_indices & {*(seat.share.gpu_indices or ())}
    for place_, number in given_away.items():
        one = nodes[place_]
        assert number <= (one.free_slices[PROFILE] if asked.mig_profile else one.free_gpus)
        assert one.free_host_bytes is None or host[place_] <= one.free_host_bytes
    assert max(indices.values(), default=1) == 1
    assert found.num_gpus == asked.num_gpus


@settings(max_examples=150)
@given(supplies(), asks())
def test_no_group_leaves_its_island(supply: Supply, asked: PlacementRequest) -> None:
    """In the order of ranks each group is on one island, known by index, or by the node where that
    is inside an island.
    """
    found = find_placement(supply, asked)
    if found is None or asked.mig_profile:
        return

    pools = {pool.pool.name: pool for pool in supply.pools}
    for replica in range(asked.num_replicas):
        seats = [seat for seat in found.assignments if seat.replica == replica]
        assert len({seat.gpu for seat in seats}) == 1
        assert len({seat.share.num_gpus for seat in seats}) == 1
        ranks = [
            place_ for seat in seats for place_ in _islands(pools[seat.share.pool], seat.share)
        ]
        assert len(ranks) == asked.gpus_per_replica
        for first in range(0, len(ranks), asked.island_group):
            known = {
                island
                for island in ranks[first : first + asked.island_group]
                if island[1] is not None
            }
            assert len(known) <= 1


def _islands(pool: PoolSupply, share: Share) -> list[tuple[str, object]]:
    """Return the island of each rank: None of a node whose islands are smaller and not known."""
    kind = pool.pool
    position = next(number for number, node in enumerate(pool.nodes) if node.name == share.node)
    if kind.island_size >= kind.gpus_per_node:
        return [(kind.name, position * kind.gpus_per_node // kind.island_size)] * share.num_gpus
    if share.gpu_indices is None:
        return [(kind.name, None)] * share.num_gpus
    return [(kind.name, (position, index // kind.island_size)) for index in share.gpu_indices]


@settings(max_examples=100)
@given(supplies(), asks())
def test_waiting_is_told_from_never(supply: Supply, asked: PlacementRequest) -> None:
    """What the empty cluster could hold has to wait, and a moment that is promised comes true; the
    rest never runs.
    """
    found, empty = place(supply, asked), find_placement(clear_supply(supply), asked)

    match found:
        case Placement():
            assert empty is not None
        case Blocked():
            assert empty is not None
            assert found.free_gpus <= found.total_gpus
            assert found.possible_at in {None, LATER}
            left = build_supply(supply.inventory)
            assert (found.possible_at == LATER) == (find_placement(left, asked) is not None)
        case Impossible():
            assert empty is None


@settings(max_examples=100)
@given(supplies())
def test_held_and_free_add_up(supply: Supply) -> None:
    """Every GPU is free, or somebody's: used, reserved, drained, or cut by MIG."""
    for found in supply.pools:
        for one in found.nodes:
            assert one.free_gpus + sum(claim.num_gpus for claim in one.claims) in {
                found.pool.gpus_per_node,
                # Of a drained node the GPUs that MIG has cut are not whole ones.
                found.pool.gpus_per_node - _cut(found.pool, one.name),
            }


def _cut(pool: Pool, name: str) -> int:
    return next(node.mig_gpus for node in pool.list_nodes() if node.name == name)


@given(st.sampled_from([(4, 2), (8, 4), (8, 2), (6, 3), (8, 8)]), st.integers(1, 4), st.data())
def test_the_worst_case_is_the_worst_case(
    shape: tuple[int, int], group: int, data: st.DataObject
) -> None:
    """Where it is not known which GPUs are taken, as many groups are promised as the worst choice
    of them leaves.
    """
    gpus_per_node, island = shape
    taken = data.draw(st.integers(0, gpus_per_node))
    kind = Pool(
        name="p",
        gpu=SKUS[0],
        gpus_per_node=gpus_per_node,
        nvlink_island_size=island,
        nodes=(Node(name="n", allocated_gpus=taken),),
    )
    (room,) = list_node_capacities(
        [_without_indices(build_supply(ClusterInventory(pools=(kind,))).pools[0])]
    )

    worst = min(
        _groups(frozenset(gone), gpus_per_node, island, group)
        for gone in combinations(range(gpus_per_node), taken)
    )
    asked = PlacementRequest(gpus=SKUS, gpus_per_replica=group, island_group=group)
    assert room.count_available_gpus(asked, group) == worst * group


def _without_indices(pool: PoolSupply) -> PoolSupply:
    return replace(pool, nodes=tuple(replace(node, is_known=False) for node in pool.nodes))


def _groups(gone: frozenset[int], gpus_per_node: int, island: int, group: int) -> int:
    left = Counter(index // island for index in range(gpus_per_node) if index not in gone)
    return sum(free // group for free in left.values())
