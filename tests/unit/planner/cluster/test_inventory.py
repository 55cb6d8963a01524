"""An inventory counts GPUs and refuses numbers that no cluster can have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator.values.errors import InvalidInputError
from service.planner.cluster.inventory import (
    MAX_GPUS_PER_NODE,
    MAX_NODES_PER_POOL,
    ClusterInventory,
    Node,
    NodeState,
    Pool,
)


def pool(**changes: object) -> Pool:
    """Build a pool of two free nodes of eight GPUs that differs from it as said."""
    right: dict[str, object] = {
        "name": "p",
        "gpu": "A100-SXM4-80GB",
        "gpus_per_node": 8,
        "num_nodes": 2,
    }
    return Pool(**(right | changes))  # type: ignore[arg-type]  # each test says what it changes


def named(*nodes: Node, **changes: object) -> Pool:
    """Build a pool of named nodes."""
    return pool(nodes=nodes, num_nodes=None, **changes)


def test_counted_nodes_are_free() -> None:
    """Nodes without names are held by nobody."""
    assert (pool().total_gpus, pool().free_gpus) == (16, 16)


def test_named_nodes_say_what_is_free() -> None:
    """What others hold is not free, and a drained node takes nothing."""
    nodes = (
        Node(name="a"),
        Node(name="b", allocated_gpus=3),
        Node(name="c", state=NodeState.DRAINED),
    )

    assert (named(*nodes).total_gpus, named(*nodes).free_gpus) == (24, 13)


def test_no_node_is_a_pool_too() -> None:
    """A pool that is scaled to zero has no GPUs, counted or named."""
    assert (pool(num_nodes=0).total_gpus, named().total_gpus, named().free_gpus) == (0, 0, 0)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 72])
def test_islands_divide_nodes_or_span_them(size: int) -> None:
    """Four GPUs of eight may share links, and so may 72 GPUs of 18 nodes."""
    assert pool(nvlink_island_size=size).nvlink_island_size == size


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"gpus_per_node": 0}, "gpus_per_node", f"between 1 and {MAX_GPUS_PER_NODE}"),
        ({"gpus_per_node": 257}, "gpus_per_node", "257"),
        ({"num_nodes": -1}, "num_nodes", f"between 0 and {MAX_NODES_PER_POOL}"),
        ({"num_nodes": MAX_NODES_PER_POOL + 1}, "num_nodes", "100001"),
        ({"num_nodes": None}, "nodes", "either"),
        ({"nodes": ()}, "nodes", "either"),
        ({"nvlink_island_size": 3}, "nvlink_island_size", "3 and gpus_per_node 8"),
        ({"nvlink_island_size": 0}, "nvlink_island_size", "0"),
        ({"nvlink_island_size": -8}, "nvlink_island_size", "-8"),
        ({"host_memory_bytes": -1}, "host_memory_bytes", "0 or more"),
        ({"network_bytes_per_second": -1}, "network_bytes_per_second", "0 or more"),
        ({"price_per_gpu_hour": -0.5}, "price_per_gpu_hour", "0 or more"),
        ({"price_per_gpu_hour": float("nan")}, "price_per_gpu_hour", "0 or more"),
        ({"price_per_gpu_hour": float("inf")}, "price_per_gpu_hour", "0 or more"),
    ],
)
def test_a_pool_that_cannot_be(changes: dict[str, object], field: str, reason: str) -> None:
    """The refusal names the pool, the field and the number."""
    with pytest.raises(InvalidInputError, match=reason) as refused:
        pool(**changes)

    assert refused.value.field == field
    assert refused.value.message.startswith("pool 'p' ")


def test_nodes_that_cannot_be() -> None:
    """More GPUs allocated than there are, fewer than none, or one name twice."""
    with pytest.raises(InvalidInputError, match="8 GPUs per node, but 9 are allocated on 'a'"):
        named(Node(name="a", allocated_gpus=9))
    with pytest.raises(InvalidInputError, match="allocated_gpus -1"):
        Node(name="a", allocated_gpus=-1)
    with pytest.raises(InvalidInputError, match="node 'a' twice"):
        named(Node(name="a"), Node(name="b"), Node(name="a"))


def test_pools_have_their_own_names() -> None:
    """A placement that names a pool must mean one."""
    with pytest.raises(InvalidInputError, match="two pools are named 'p'"):
        ClusterInventory(pools=(pool(), pool(gpu="T4")))


@given(st.lists(st.tuples(st.integers(0, 8), st.sampled_from(NodeState)), max_size=20))
def test_free_and_held_add_up(nodes: list[tuple[int, NodeState]]) -> None:
    """Every GPU is free, held by others, or on a node that is drained."""
    found = named(
        *(
            Node(name=str(i), allocated_gpus=held, state=state)
            for i, (held, state) in enumerate(nodes)
        ),
    )
    held = sum(held for held, state in nodes if state is NodeState.READY)
    drained = 8 * sum(state is NodeState.DRAINED for _, state in nodes)

    assert found.free_gpus + held + drained == found.total_gpus
