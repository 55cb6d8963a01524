"""Promises that an inventory cannot keep are named, with who holds them."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from service.planner.cluster.broken_reservations import list_broken_reservations
from service.planner.cluster.inventory import ClusterInventory, MigSlices, Node, NodeState, Pool
from service.planner.cluster.reservation import Reservation, Share

NODE = Node(name="n1", mig_gpus=1, mig_slices=(MigSlices(profile="1g.10gb", total=7),))
POOL = Pool(name="a", gpu="A100-SXM4-80GB", gpus_per_node=8, nodes=(NODE, Node(name="n2")))
END = datetime(2030, 1, 1, tzinfo=UTC)


def held(
    holder: str, num_gpus: int, *, node: str = "n1", pool: str = "a", profile: str | None = None
) -> Reservation:
    """Return a promise of some GPUs, or slices, of one node."""
    share = Share(pool=pool, node=node, num_gpus=num_gpus, mig_profile=profile)
    return Reservation(holder=holder, shares=(share,), expires_at=END)


def told(*reservations: Reservation, pool: Pool = POOL) -> list[str]:
    """Return what a cluster of one pool cannot keep."""
    return list(list_broken_reservations(ClusterInventory(pools=(pool,)), reservations))


def test_what_is_there_is_kept() -> None:
    """Whole GPUs beside the sliced one, its slices, and nodes that are only counted."""
    counted = replace(POOL, nodes=None, num_nodes=2)

    assert (
        told(held("x", 4), held("y", 3), held("z", 7, profile="1g.10gb"), held("x", 8, node="n2"))
        == []
    )
    assert told(held("x", 8, node="a-2"), pool=counted) == []


@pytest.mark.parametrize(
    ("reservations", "says"),
    [
        ((held("x", 4), held("y", 4)), "reservations of x, y hold 8 GPUs of a/n1, which has 7"),
        ((held("x", 1, node="n3"),), "hold 1 GPUs of a/n3, which is not in the inventory"),
        ((held("x", 1, pool="b"),), "hold 1 GPUs of b/n1, which is not in the inventory"),
        ((held("x", 8, profile="1g.10gb"),), "hold 8 slices of 1g.10gb of a/n1, which has 7"),
        ((held("x", 1, profile="2g.20gb"),), "hold 1 slices of 2g.20gb of a/n1, which has 0"),
    ],
)
def test_what_is_gone_is_named(reservations: tuple[Reservation, ...], says: str) -> None:
    """A node that was dropped, a pool, GPUs of a node, or slices that were cut anew."""
    [found] = told(*reservations)

    assert says in found


def test_a_drained_node_keeps_nothing() -> None:
    """It takes no work, whoever was promised it."""
    drained = replace(POOL, nodes=(replace(NODE, state=NodeState.DRAINED),))

    assert told(held("x", 1), pool=drained) == [
        "reservations of x hold 1 GPUs of a/n1, which takes no new work"
    ]
