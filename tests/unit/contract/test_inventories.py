"""What a cluster may be that is stored."""

import pytest
from msgspec import UNSET, structs

from service.base.errors import UnknownGpuError
from service.contract.schemas.clusters import MigSlicesRequest, NodeRequest, PoolRequest
from service.contract.to_answer.inventories import MAX_NODES, read_inventory
from service.estimator.values.errors import InvalidInputError


def pool(name: str, num_nodes: int) -> PoolRequest:
    """Return a pool of nodes without names."""
    return PoolRequest(name=name, gpu="H200", gpus_per_node=8, num_nodes=num_nodes)


def test_the_nodes_of_all_pools_are_bounded_together() -> None:
    """Every plan looks at each of them, counted or named."""
    one_named = PoolRequest(name="b", gpu="H200", gpus_per_node=8, nodes=[NodeRequest(name="n1")])

    assert len(read_inventory([pool("a", MAX_NODES - 1), one_named]).pools) == 2
    with pytest.raises(
        InvalidInputError, match="have 10,001 nodes, and a cluster may have 10,000"
    ) as refused:
        read_inventory([pool("a", MAX_NODES), one_named])
    assert refused.value.field == "pools"


def test_no_node_stands_in_two_pools_of_one_gpu() -> None:
    """Partitions that overlap would promise its GPUs twice; other GPUs of the same machine are
    others.
    """
    first = PoolRequest(
        name="day", gpu="A100-SXM4-80GB", gpus_per_node=8, nodes=[NodeRequest(name="n1")]
    )
    counted = PoolRequest(name="n", gpu="A100-SXM4-80GB", gpus_per_node=8, num_nodes=1)
    named = PoolRequest(
        name="m", gpu="A100-SXM4-80GB", gpus_per_node=8, nodes=[NodeRequest(name="n-1")]
    )

    with pytest.raises(
        InvalidInputError, match=r"node 'n1' stands in pools 'day' and 'night' .* promised twice"
    ) as refused:
        read_inventory([first, structs.replace(first, name="night", gpu="NVIDIA A100-SXM4-80GB")])
    assert refused.value.field == "pools[1].nodes"
    with pytest.raises(InvalidInputError, match="node 'n-1' stands in pools"):
        read_inventory([counted, named])
    assert len(read_inventory([first, structs.replace(first, name="night", gpu="L4")]).pools) == 2


SLICES = "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"


def test_a_pool_of_slices_is_a_pool_of_gpus_that_are_cut() -> None:
    """Feature discovery labels a node of eight A100 in 56 slices with the slice's name, and
    Kubernetes counts 56 GPUs on it.
    """
    named = PoolRequest(
        name="b",
        gpu=SLICES,
        gpus_per_node=56,
        nodes=[NodeRequest(name="n1", allocated_gpus=10)],
    )
    counted = PoolRequest(name="a", gpu="A100-SXM4-80GB/1g.10gb", gpus_per_node=28, num_nodes=2)

    pools = read_inventory([named, counted]).pools

    assert [(pool.gpu, pool.gpus_per_node) for pool in pools] == [
        ("A100-SXM4-80GB", 8),
        ("A100-SXM4-80GB", 4),
    ]
    (node,) = pools[0].nodes or ()
    assert (node.mig_gpus, node.allocated_gpus) == (8, 0)
    assert [(part.total, part.allocated) for part in node.mig_slices] == [(56, 10)]
    assert [node.name for node in pools[1].nodes or ()] == ["a-1", "a-2"]
    assert all(node.mig_slices[0].total == 28 for node in pools[1].nodes or ())
    assert (pools[0].free_gpus, pools[1].free_gpus) == (0, 0)


def test_slices_of_slices_and_unknown_profiles_are_refused() -> None:
    """A pool says its slices once, and only those that its GPU can be cut into."""
    sliced = NodeRequest(
        name="n1", mig_gpus=1, mig_slices=[MigSlicesRequest(profile="1g.10gb", total=7)]
    )

    with pytest.raises(InvalidInputError, match="names slices already"):
        read_inventory([PoolRequest(name="a", gpu=SLICES, gpus_per_node=7, nodes=[sliced])])
    with pytest.raises(UnknownGpuError, match=r"it has: 1g\.10gb, 1g\.20gb"):
        read_inventory(
            [PoolRequest(name="a", gpu="A100-SXM4-80GB/1g.5gb", gpus_per_node=7, num_nodes=1)]
        )


def test_a_gpu_that_the_catalogue_does_not_have_is_kept_with_its_memory() -> None:
    """It comes from an import, or somebody types it; one that the catalogue has has its own."""
    typed = PoolRequest(
        name="z", gpu="zeta9000", gpus_per_node=8, num_nodes=2, gpu_memory_bytes="24Gi"
    )

    (read,) = read_inventory([typed]).pools

    assert (read.gpu, read.gpu_memory_bytes) == ("zeta9000", 24 << 30)
    with pytest.raises(UnknownGpuError, match="'zeta9000' is not in the catalogue"):
        read_inventory([structs.replace(typed, gpu_memory_bytes=UNSET)])
    with pytest.raises(InvalidInputError, match="the catalogue does not have, and it has 'L4'"):
        read_inventory([structs.replace(typed, gpu="L4")])


def test_a_node_has_a_place_in_every_level_or_none() -> None:
    """Two names of levels and one place cannot be told apart from each other."""
    named = PoolRequest(
        name="a",
        gpu="L4",
        gpus_per_node=8,
        level_names=["block", "rack"],
        nodes=[NodeRequest(name="n1", levels=["b1", "r1"]), NodeRequest(name="n2")],
    )

    assert read_inventory([named]).pools[0].level_names == ("block", "rack")
    with pytest.raises(InvalidInputError, match="'n3' has"):
        read_inventory([structs.replace(named, nodes=[NodeRequest(name="n3", levels=["b1"])])])
