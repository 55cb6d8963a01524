"""What somebody wants to reserve is granted as a whole, or refused with what is free and what can
never be.
"""

from datetime import UTC, datetime

import pytest

from service.estimator.values.errors import InvalidInputError
from service.planner.cluster.grants import ANYWHERE, grant
from service.planner.cluster.inventory import ClusterInventory, MigSlices, Node, Pool
from service.planner.cluster.placement import Supply, build_supply
from service.planner.cluster.reservation import Reservation, Share

NODES = (
    Node(name="n1"),
    Node(name="n2", allocated_gpus=3),
    Node(name="n4", mig_gpus=1, mig_slices=(MigSlices(profile="1g.10gb", total=7, allocated=2),)),
)


def share(node: str = "n1", num_gpus: int = 4, **changes: object) -> Share:
    """Build a share of the pool."""
    right: dict[str, object] = {"pool": "a100", "node": node, "num_gpus": num_gpus}
    return Share(**(right | changes))  # type: ignore[arg-type]  # each test says what it changes


def supply(*promised: Share) -> Supply:
    """Build the cluster of these tests with what is promised on it."""
    cluster = ClusterInventory(
        pools=(Pool(name="a100", gpu="A100-SXM4-80GB", gpus_per_node=8, nodes=NODES),)
    )
    later = datetime(2026, 5, 1, tzinfo=UTC)
    return build_supply(
        cluster, [Reservation(holder="bob", shares=promised, expires_at=later)] if promised else ()
    )


def test_wishes_of_one_node_are_one_share() -> None:
    """GPUs and memory add up; indices stay known only where every wish named them."""
    known, _ = grant(
        supply(),
        [
            share(num_gpus=1, gpu_indices=(2,)),
            share(num_gpus=1, gpu_indices=(3,), host_memory_bytes=7),
        ],
    )
    mixed, _ = grant(supply(), [share(num_gpus=1, gpu_indices=(2,)), share(num_gpus=1)])

    assert known == (share(num_gpus=2, gpu_indices=(2, 3), host_memory_bytes=7),)
    assert mixed == (share(num_gpus=2),)


def test_one_index_cannot_be_wanted_twice() -> None:
    """Two wishes for the same GPU contradict each other."""
    with pytest.raises(InvalidInputError, match="gpu_indices"):
        grant(supply(), [share(num_gpus=1, gpu_indices=(2,)), share(num_gpus=1, gpu_indices=(2,))])


def test_what_is_promised_by_index_is_taken() -> None:
    """The same index is refused, another one is granted."""
    promised = share(num_gpus=2, gpu_indices=(0, 1))
    _, lacks = grant(supply(promised), [share(num_gpus=2, gpu_indices=(1, 2))])
    granted, _ = grant(supply(promised), [share(num_gpus=2, gpu_indices=(2, 3))])

    assert [lack.reason for lack in lacks] == ["GPU 1 of n1 is taken"]
    assert granted[0].gpu_indices == (2, 3)


def test_anywhere_takes_the_fewest_and_fullest_nodes() -> None:
    """Five GPUs go where five are left; thirteen need that node and a whole one."""
    five, _ = grant(supply(), [share(ANYWHERE, 5)])
    thirteen, _ = grant(supply(), [share(ANYWHERE, 13)])

    assert [(part.node, part.num_gpus) for part in five] == [("n2", 5)]
    assert {(part.node, part.num_gpus) for part in thirteen} == {("n1", 8), ("n2", 5)}


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (share(pool="h100"), "here[1].pool"),
        (share("n9"), "here[1].node"),
        (share("n1", 9), "here[1].num_gpus"),
        (share("n4", 8), "here[1].num_gpus"),
        (share("n1", 1, mig_profile="1g.10gb"), "here[1].num_gpus"),
        (share("n4", 8, mig_profile="1g.10gb"), "here[1].num_gpus"),
        (share("n1", 1, gpu_indices=(8,)), "here[1].gpu_indices"),
        (share(ANYWHERE, 1, gpu_indices=(0,)), "here[1].gpu_indices"),
    ],
)
def test_what_the_cluster_will_never_have(wanted: Share, field: str) -> None:
    """A place that is not there, or more than it holds when it is empty, is the caller's
    mistake.
    """
    with pytest.raises(InvalidInputError) as refused:
        grant(supply(), [share(num_gpus=1), wanted], field="here")

    assert refused.value.field == field


@pytest.mark.parametrize(
    "changes",
    [
        {"num_gpus": 0},
        {"host_memory_bytes": -1},
        {"gpu_indices": (1, 2)},
        {"num_gpus": 2, "gpu_indices": (1, 1)},
        {"num_gpus": 1, "gpu_indices": (1,), "mig_profile": "1g.10gb"},
    ],
)
def test_shares_that_cannot_be(changes: dict[str, object]) -> None:
    """No GPU, memory below zero, and indices that are not one per GPU are refused."""
    with pytest.raises(InvalidInputError):
        share(**changes)  # type: ignore[arg-type]  # each test says what it changes
