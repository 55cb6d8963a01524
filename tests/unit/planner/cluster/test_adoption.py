"""Imports come into a stored inventory without losing what they do not say."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from service.planner.cluster.adoption import ImportScope, adopt_pools
from service.planner.cluster.changes import Change, ChangeKind, FieldChange, list_changes
from service.planner.cluster.inventory import ClusterInventory, Node, NodeState, Pool
from service.planner.cluster.observations import STALE_AFTER, list_observation_warnings

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def seen(name: str, *, source: str | None = "slurm 24.11.5", allocated: int = 0) -> Node:
    """Return a node that a tool showed."""
    return Node(name=name, source=source, observed_at=NOW, allocated_gpus=allocated)


def pool(*nodes: Node, name: str = "l4-x4", gpu: str = "L4") -> Pool:
    """Return a pool of nodes with four GPUs each."""
    return Pool(name=name, gpu=gpu, gpus_per_node=4, nodes=nodes)


def adopt(
    stored: ClusterInventory | None, *pools: Pool, scope: ImportScope = ImportScope.SOURCE
) -> ClusterInventory:
    """Return the inventory after an import from Slurm."""
    return adopt_pools(stored, pools, tool="slurm", scope=scope)


def names(inventory: ClusterInventory) -> dict[str, list[str]]:
    """Return the nodes of each pool."""
    return {part.name: [node.name for node in part.nodes or ()] for part in inventory.pools}


def test_the_same_again_changes_nothing() -> None:
    """Nobody has to look through a diff that says nothing."""
    first = adopt(None, pool(seen("n1"), seen("n2")))

    again = adopt(first, pool(seen("n1"), replace(seen("n2"), observed_at=NOW + timedelta(1))))

    assert list_changes(first, again) == ()


def test_what_an_import_does_not_say_stays() -> None:
    """A pool keeps its name, its price, its network and its island."""
    typed = Pool(
        name="lab",
        gpu="L4",
        gpus_per_node=4,
        nodes=(Node(name="n1"),),
        nvlink_island_size=2,
        nvme_bytes=1,
        network_bytes_per_second=2,
        price_per_gpu_hour=0.5,
        host_memory_bytes=7,
    )

    (after,) = adopt(
        ClusterInventory(pools=(typed,)), replace(pool(seen("n1")), host_memory_bytes=9)
    ).pools

    assert after == replace(typed, nodes=(seen("n1"),), host_memory_bytes=9)


def test_a_place_is_kept_under_its_levels_name() -> None:
    """A node that the import does not name has no rack "z1" where its pool has racks for zones."""
    typed = Node(name="typed", levels=("z1", "r7"))
    stored = replace(pool(seen("n1")), level_names=("zone", "rack"), nodes=(typed, Node(name="n1")))

    def adopt_levels(*level_names: str) -> tuple[str, ...]:
        imported = replace(pool(seen("n1")), level_names=level_names)
        (after,) = adopt(ClusterInventory(pools=(stored,)), imported).pools
        return next(node for node in after.nodes or () if node.name == "typed").levels

    assert adopt_levels("zone", "rack") == ("z1", "r7")
    assert adopt_levels("rack", "zone") == ("r7", "z1")
    assert adopt_levels("rack") == ("r7",)
    assert adopt_levels("block", "rack") == ()


def test_scopes_say_what_goes() -> None:
    """A tool's missing nodes go by default; what others added or typed stays until told."""
    stored = ClusterInventory(
        pools=(
            pool(
                seen("n1"), seen("gone"), seen("k1", source="kubernetes"), seen("t1", source=None)
            ),
            Pool(name="counted", gpu="H200", gpus_per_node=8, num_nodes=2),
        )
    )
    new = pool(seen("n1"), seen("n2"))

    results = {scope: names(adopt(stored, new, scope=scope)) for scope in ImportScope}

    assert results == {
        ImportScope.NAMED: {"l4-x4": ["n1", "n2", "gone", "k1", "t1"], "counted": []},
        ImportScope.SOURCE: {"l4-x4": ["n1", "n2", "k1", "t1"], "counted": []},
        ImportScope.CLUSTER: {"l4-x4": ["n1", "n2"]},
    }


def test_a_node_with_other_gpus_moves() -> None:
    """It leaves its pool, and a pool without nodes goes."""
    before = adopt(None, pool(seen("n1")))

    after = adopt(before, pool(seen("n1"), name="h200-x4", gpu="H200"))

    assert names(after) == {"h200-x4": ["n1"]}
    assert [(change.kind, change.pool, change.node) for change in list_changes(before, after)] == [
        (ChangeKind.ADDED, "h200-x4", None),
        (ChangeKind.REMOVED, "l4-x4", None),
        (ChangeKind.ADDED, "h200-x4", "n1"),
        (ChangeKind.REMOVED, "l4-x4", "n1"),
    ]


def test_names_of_new_pools_are_free_ones() -> None:
    """A stored pool of another kind may have the name already."""
    stored = ClusterInventory(pools=(pool(seen("k1", source="ray"), gpu="H200"),))

    assert names(adopt(stored, pool(seen("n1")))) == {"l4-x4": ["k1"], "l4-x4-2": ["n1"]}


def test_a_change_says_before_and_after() -> None:
    """A drain and a new job are changes of the node."""
    before = adopt(None, pool(seen("n1")))
    drained = replace(seen("n1", allocated=2), state=NodeState.DRAINED, unavailable="drain")

    after = adopt(before, pool(drained))

    assert list_changes(before, after) == (
        Change(
            kind=ChangeKind.CHANGED,
            pool="l4-x4",
            gpu="L4",
            node="n1",
            fields=(
                FieldChange(name="state", before=NodeState.READY, after=NodeState.DRAINED),
                FieldChange(name="unavailable", before=None, after="drain"),
                FieldChange(name="allocated_gpus", before=0, after=2),
            ),
        ),
    )


def test_old_observations_are_warned_about() -> None:
    """Within the bound nothing is said; after it, how old the oldest is."""
    cluster = adopt(None, pool(seen("n1"), replace(seen("n2"), observed_at=NOW - timedelta(1))))

    fresh = list(list_observation_warnings(cluster, NOW - timedelta(hours=23) + STALE_AFTER / 2))
    stale = list(list_observation_warnings(cluster, NOW + STALE_AFTER + timedelta(hours=4)))

    assert len(fresh) == 1
    assert fresh[0].startswith(
        "1 nodes of pool l4-x4 were last seen 90 minutes ago (slurm 24.11.5)"
    )
    assert stale[0].startswith("2 nodes of pool l4-x4 were last seen 29 hours ago")
    assert list(list_observation_warnings(cluster, NOW - timedelta(hours=23, minutes=30))) == []


def test_unknown_and_shared_gpus_are_warned_about() -> None:
    """Nothing is planned on the first, and others may take the memory of the second."""
    unknown = replace(pool(seen("n1")), gpu_memory_bytes=0)
    shared = replace(pool(seen("n2"), name="shared"), gpu_replicas=4)

    first, second = list_observation_warnings(ClusterInventory(pools=(unknown, shared)), NOW)

    assert "nobody knows the memory of L4 in pool l4-x4" in first
    assert "up to 4 pods share each GPU of pool shared in time" in second
