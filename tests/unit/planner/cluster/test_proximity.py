"""A job on several nodes gets nodes that are near each other in the network."""

import pytest

from service.planner.cluster.inventory import ClusterInventory, Node, Pool
from service.planner.cluster.placement import (
    Placement,
    PlacementRequest,
    build_supply,
    clear_supply,
    place,
)

PLACES = {
    "n1": ("b1", "r1"),
    "n2": ("b1", "r2"),
    "n3": ("b2", "r3"),
    "n4": ("b2", "r3"),
    "n5": ("b2", "r3"),
    "n6": ("b1", "r1"),
}


def place_on(
    num_nodes: int, *, replicas: int = 1, used: frozenset[str] = frozenset(), known: bool = True
) -> Placement:
    """Return where replicas of full nodes run."""
    nodes = tuple(
        Node(name=name, levels=levels if known else (), allocated_gpus=8 if name in used else 0)
        for name, levels in PLACES.items()
    )
    pool = Pool(name="a", gpu="H200", gpus_per_node=8, nodes=nodes, level_names=("block", "rack"))
    request = PlacementRequest(
        gpus=("H200",), gpus_per_replica=8 * num_nodes, num_replicas=replicas, island_group=8
    )
    placement = place(build_supply(ClusterInventory(pools=(pool,))), request)
    assert isinstance(placement, Placement)
    return placement


@pytest.mark.parametrize(
    ("num_nodes", "nodes"),
    [(2, {"n1", "n6"}), (3, {"n3", "n4", "n5"})],
    ids=["smallest rack that has two", "the rack that has three"],
)
def test_nodes_of_one_rack_are_taken_together(num_nodes: int, nodes: set[str]) -> None:
    """Of parts that have enough, the smallest, which leaves the larger ones whole."""
    placement = place_on(num_nodes)

    assert set(placement.nodes) == nodes
    assert placement.notes == ()


def test_a_block_comes_before_the_whole_network() -> None:
    """No rack has three free nodes: those of one block are nearer than any."""
    placement = place_on(3, used=frozenset({"n3"}))

    assert set(placement.nodes) == {"n1", "n2", "n6"}
    assert placement.notes == ("the nodes of one replica are in 2 different places of rack",)


def test_what_is_in_no_part_is_taken_from_anywhere() -> None:
    """Levels are a preference, never a reason to refuse."""
    assert len(place_on(5).nodes) == 5


def test_every_replica_is_near_itself() -> None:
    """Replicas may be far from each other."""
    placement = place_on(2, replicas=2)

    by_replica = [
        {
            assignment.share.node
            for assignment in placement.assignments
            if assignment.replica == number
        }
        for number in range(2)
    ]
    assert by_replica[0] == {"n1", "n6"}
    assert by_replica[1] <= {"n3", "n4", "n5"}


def test_without_levels_nothing_changes() -> None:
    """The fullest nodes are taken in their order, as before."""
    assert place_on(2, known=False).nodes == ("n1", "n2")


def test_the_empty_cluster_keeps_its_levels() -> None:
    """What fits at all is asked of the same network."""
    node = Node(name="n1", levels=("b1",), allocated_gpus=3)
    pool = Pool(name="a", gpu="H200", gpus_per_node=8, nodes=(node,), level_names=("block",))

    empty = clear_supply(build_supply(ClusterInventory(pools=(pool,))))

    assert (empty.pools[0].nodes[0].free_gpus, empty.pools[0].nodes[0].levels) == (8, ("b1",))
