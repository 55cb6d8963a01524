"""A job is placed on named nodes where it fits, or told who is in its way, or that it can never run
there.
"""

import re
from datetime import UTC, datetime, timedelta

import pytest

from service.estimator.values.errors import InvalidInputError
from service.planner.cluster.inventory import (
    Allocation,
    ClusterInventory,
    MigSlices,
    Node,
    NodeState,
    Pool,
)
from service.planner.cluster.node_supply import Hold
from service.planner.cluster.placement import (
    Blocked,
    Impossible,
    Placement,
    PlacementRequest,
    build_supply,
    place,
)
from service.planner.cluster.reservation import Reservation, Share

A100, H100 = "A100-SXM4-80GB", "H100-SXM5-80GB"
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def pool(*free: int, **changes: object) -> Pool:
    """Build a pool of eight-GPU nodes n1, n2 … of which so many GPUs are free."""
    nodes = tuple(
        Node(name=f"n{number}", allocated_gpus=8 - left)
        for number, left in enumerate(free, start=1)
    )
    right: dict[str, object] = {"name": "p", "gpu": A100, "gpus_per_node": 8, "nodes": nodes}
    return Pool(**(right | changes))  # type: ignore[arg-type]  # each test says what it changes


def ask(num_gpus: int, **changes: object) -> PlacementRequest:
    """Build a question for A100."""
    right: dict[str, object] = {"gpus": (A100,), "gpus_per_replica": num_gpus}
    return PlacementRequest(**(right | changes))  # type: ignore[arg-type]  # each test says what it changes


def answer(
    asked: PlacementRequest, *pools: Pool, reservations: tuple[Reservation, ...] = ()
) -> Placement | Blocked | Impossible:
    """Place a job on a cluster of these pools."""
    return place(build_supply(ClusterInventory(pools=pools), reservations), asked)


def placed(
    asked: PlacementRequest, *pools: Pool, reservations: tuple[Reservation, ...] = ()
) -> Placement:
    """Return where a job that has room runs."""
    found = answer(asked, *pools, reservations=reservations)
    assert isinstance(found, Placement), found
    return found


def counts(found: Placement) -> dict[str, int]:
    """Return how many GPUs each node gives."""
    given: dict[str, int] = {}
    for seat in found.assignments:
        given[seat.share.node] = given.get(seat.share.node, 0) + seat.share.num_gpus
    return given


def reason(
    asked: PlacementRequest, *pools: Pool, reservations: tuple[Reservation, ...] = ()
) -> str:
    """Return why a job has no room."""
    found = answer(asked, *pools, reservations=reservations)
    assert not isinstance(found, Placement), found
    return found.reason


def test_the_fullest_node_that_suffices_is_taken() -> None:
    """Four GPUs go where four are left, so that whole nodes stay whole."""
    found = placed(ask(4), pool(8, 3, 4, 6))

    assert counts(found) == {"n3": 4}
    assert (found.num_gpus, found.gpus_per_node, found.nodes, found.notes) == (4, 4, ("n3",), ())


def test_fewest_nodes_go_before_fullest() -> None:
    """Sixteen GPUs take two free nodes and leave the halves alone; without those they take four
    halves, and say so.
    """
    assert counts(placed(ask(16), pool(4, 8, 4, 8, 4, 4))) == {"n2": 8, "n4": 8}

    spread = placed(ask(16), pool(4, 7, 4, 4, 5, 8))
    assert (counts(spread), spread.gpus_per_node) == ({"n1": 4, "n3": 4, "n4": 4, "n5": 4}, 4)
    assert "4 GPUs per node where 8 would do" in spread.notes[0]


def test_replicas_stand_alone() -> None:
    """Served replicas fill nodes one by one and need not have equally many neighbours."""
    found = placed(ask(2, num_replicas=6, island_group=2), pool(3, 8, 4))

    assert counts(found) == {"n2": 8, "n3": 4}
    assert sorted(seat.replica for seat in found.assignments) == list(range(6))


def test_replicas_larger_than_a_node() -> None:
    """Each replica has whole nodes of its own."""
    found = placed(ask(16, num_replicas=2, island_group=8), pool(8, 8, 8, 8, 7))
    by_replica = [
        {seat.share.node for seat in found.assignments if seat.replica == replica}
        for replica in (0, 1)
    ]

    assert (len(by_replica[0]), len(by_replica[1]), by_replica[0] & by_replica[1]) == (2, 2, set())


def test_known_indices_are_given_by_index_inside_islands() -> None:
    """Two islands of four with one GPU taken of each hold one pair each and no group of four."""
    taken = Allocation(holder="a", num_gpus=2, gpu_indices=(1, 6))
    islands = pool(
        nodes=(Node(name="n1", allocated_gpus=2, allocations=(taken,)),), nvlink_island_size=4
    )

    assert placed(ask(4, island_group=2), islands).assignments[0].share.gpu_indices == (0, 2, 4, 5)
    assert placed(ask(3, island_group=3), islands).assignments[0].share.gpu_indices == (0, 2, 3)
    assert "not in groups of 4 on one NVLink island" in reason(ask(4, island_group=4), islands)


def test_unknown_indices_are_taken_to_be_the_worst() -> None:
    """Where nobody says which GPUs are taken, only groups that are free in any case are given, and
    no index is named.
    """
    islands = pool(6, nvlink_island_size=4)

    assert placed(ask(4, island_group=2), islands).assignments[0].share.gpu_indices is None
    assert "not in groups of 4" in reason(ask(4, island_group=4), islands)
    assert counts(placed(ask(4, island_group=4), pool(7, nvlink_island_size=4))) == {"n1": 4}


def test_a_rack_can_be_an_island() -> None:
    """Tensor parallelism over 8 GPUs spans two nodes of four of one rack, never of two."""
    rack = {"gpus_per_node": 4, "nvlink_island_size": 8}
    nodes = tuple(
        Node(name=f"n{number}", allocated_gpus=held)
        for number, held in enumerate((4, 0, 0, 4, 0, 0))
    )
    whole = answer(ask(8, island_group=8), pool(nodes=nodes, **rack))
    apart = answer(ask(8, island_group=8), pool(nodes=nodes[:4], **rack))

    assert isinstance(whole, Placement)
    assert whole.nodes == ("n4", "n5")
    assert isinstance(apart, Blocked)


def test_a_group_is_not_halved() -> None:
    """Eight ranks that need one island wait for a whole node; without that need two halves do."""
    assert "not in groups of 8 on one NVLink island" in reason(ask(8, island_group=8), pool(4, 4))
    assert counts(placed(ask(8, island_group=4), pool(4, 4))) == {"n1": 4, "n2": 4}


def test_pools_of_one_kind_are_taken_together_only_if_none_suffices() -> None:
    """The cheaper pool comes first; a job over two pools says that they must reach each other."""
    cheap, dear = (
        pool(8, 8, name="cheap", price_per_gpu_hour=1.0),
        pool(8, 8, name="dear", price_per_gpu_hour=2.0),
    )
    alone, both = placed(ask(16), dear, cheap), placed(ask(32), dear, cheap)

    assert ({seat.share.pool for seat in alone.assignments}, alone.cost_per_hour) == (
        {"cheap"},
        16.0,
    )
    assert both.cost_per_hour == 48.0
    assert "spans the pools" in both.notes[0]
    assert placed(ask(8), pool(8)).cost_per_hour is None


def test_skus_are_mixed_only_when_asked_and_never_in_a_replica() -> None:
    """Replicas may run on another SKU where the framework allows it; one replica never does."""
    mixed = (pool(8, name="a"), pool(8, name="h", gpu=H100))
    replicas = placed(ask(8, num_replicas=2, gpus=(H100, A100)), *mixed)

    assert [seat.gpu for seat in replicas.assignments] == [H100, A100]
    assert isinstance(answer(ask(16, gpus=(A100, H100)), *mixed), Impossible)
    assert isinstance(answer(ask(8, num_replicas=2), *mixed), Impossible)


def test_host_memory_bounds_offload() -> None:
    """A node gives as many GPUs as its memory feeds, less what others and reservations hold of
    it.
    """
    holder = Allocation(holder="db", num_gpus=0, host_memory_bytes=300)
    small = pool(
        nodes=(Node(name="n1", allocations=(holder,)), Node(name="n2")), host_memory_bytes=1000
    )
    promise = Reservation(
        holder="x",
        shares=(Share(pool="p", node="n2", num_gpus=1, host_memory_bytes=500),),
        expires_at=NOON,
    )

    assert counts(placed(ask(8, host_bytes_per_gpu=125), small)) == {"n2": 8}
    assert "host memory, of which no node has more than" in reason(
        ask(7, host_bytes_per_gpu=125), small, reservations=(promise,)
    )
    assert "never: offload keeps" in reason(ask(8, host_bytes_per_gpu=501), small)
    assert (
        placed(ask(4, host_bytes_per_gpu=250), small).assignments[0].share.host_memory_bytes == 1000
    )
    assert "is not known" in placed(ask(8, host_bytes_per_gpu=125), pool(8)).notes[0]


def test_slices_are_devices_of_their_own() -> None:
    """Jobs of one GPU fit on slices; the GPUs that are cut are no whole GPUs any more."""
    slices = MigSlices(profile="1g.10gb", total=14, allocated=12)
    cut = pool(nodes=(Node(name="n1", mig_gpus=2, mig_slices=(slices,)),))
    found = placed(ask(1, num_replicas=2, mig_profile="1g.10gb"), cut)

    assert [seat.share.mig_profile for seat in found.assignments] == ["1g.10gb", "1g.10gb"]
    assert counts(placed(ask(6), cut)) == {"n1": 6}
    assert isinstance(answer(ask(7), cut), Impossible)
    assert reason(ask(1, num_replicas=3, mig_profile="1g.10gb"), cut).startswith(
        "not today: 2 of 14 1g.10gb slices of"
    )
    assert isinstance(answer(ask(1, mig_profile="2g.20gb"), cut), Impossible)


def test_not_today_says_who_holds_the_rest_and_until_when() -> None:
    """Whoever waits learns how much is free, who holds the rest, and when reservations will have
    made room.
    """
    nodes = (
        Node(name="n1", allocated_gpus=3, allocations=(Allocation(holder="vision", num_gpus=2),)),
        Node(name="n2"),
        Node(name="n3", state=NodeState.DRAINED),
    )
    later = NOON + timedelta(hours=1)
    promises = (
        Reservation(
            holder="alice", shares=(Share(pool="p", node="n2", num_gpus=4),), expires_at=later
        ),
        Reservation(
            holder="alice", shares=(Share(pool="p", node="n2", num_gpus=2),), expires_at=NOON
        ),
    )
    found = answer(ask(10), pool(nodes=nodes), reservations=promises)

    assert isinstance(found, Blocked)
    assert found.reason == (
        "not today: 7 of 24 A100-SXM4-80GB are free and 10 are needed; the rest is drained (8), "
        "reserved by alice (6) until 2026-05-01 13:00Z, used by vision (2), used by others (1)"
    )
    assert [(claim.hold, claim.num_gpus) for claim in found.claims] == [
        (Hold.DRAINED, 8),
        (Hold.RESERVED, 6),
        (Hold.USED, 2),
        (Hold.USED, 1),
    ]
    assert found.possible_at == later
    assert sum(claim.num_gpus for claim in found.claims) + found.free_gpus == found.total_gpus


def test_free_but_scattered_is_another_reason() -> None:
    """Enough GPUs that are not together are told as such."""
    assert "scattered: no node has more than 3" in reason(ask(5), pool(3, 3, 3))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (ask(17), "never: the cluster has 16 A100-SXM4-80GB and 17 are needed"),
        (ask(1, gpus=(H100,)), "never: the cluster has no H100-SXM5-80GB"),
        (
            ask(16, island_group=16),
            "never: groups of 16 GPUs must share an NVLink island, and the largest of .* has 8",
        ),
        (ask(15), "never: 15 GPUs cannot be spread evenly over nodes of 8 in this cluster"),
    ],
)
def test_never_says_what_the_empty_cluster_lacks(asked: PlacementRequest, said: str) -> None:
    """What a larger cluster would need to have is in the sentence."""
    found = answer(asked, pool(0, 4))

    assert isinstance(found, Impossible)
    assert re.fullmatch(said, found.reason)


@pytest.mark.parametrize(
    "changes",
    [{"gpus_per_replica": 0}, {"num_replicas": 0}, {"island_group": 3}, {"mig_profile": "1g.10gb"}],
)
def test_questions_that_cannot_be(changes: dict[str, object]) -> None:
    """No GPU, groups that do not divide a replica, and a replica of several slices are refused."""
    with pytest.raises(InvalidInputError):
        ask(8, **changes)
