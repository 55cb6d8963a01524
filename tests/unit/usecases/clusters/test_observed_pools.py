"""Observed nodes become pools: GPUs named, slices counted, equal machines together."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from service.catalog.gpus import resolve_gpu
from service.formats.inventories.observed import (
    InventoryFormat,
    ObservedGpus,
    ObservedInventory,
    ObservedNode,
    ObservedSlices,
    ObservedUse,
)
from service.planner.cluster.inventory import ClusterInventory, MigSlices, NodeState, Pool
from service.usecases.clusters.observed_gpus import NamedGpu, name_gpu
from service.usecases.clusters.observed_pools import ObservedPools, build_pools
from tests.unit.formats.inventories.listing_samples import read_samples
from tests.unit.formats.inventories.test_slurm import RELEASES

NOW = datetime(2026, 5, 1, tzinfo=UTC)
GIB = 1 << 30
A100 = ObservedGpus(name="NVIDIA A100-SXM4-80GB", count=8, memory_bytes=80 * GIB, mig_gpus=0)


def pools_of(
    *nodes: ObservedNode, levels: tuple[str, ...] = (), **aliases: NamedGpu
) -> ObservedPools:
    """Return the pools of some nodes."""
    observed = ObservedInventory(format=InventoryFormat.KUBERNETES, nodes=nodes, level_names=levels)
    return build_pools(observed, observed_at=NOW, aliases=aliases)


def node(name: str, *gpus: ObservedGpus, memory: int | None = None) -> ObservedNode:
    """Return a node of some GPUs, by default eight A100."""
    return ObservedNode(name=name, gpus=gpus or (A100,), host_memory_bytes=memory)


def without_source(pool: Pool) -> Pool:
    """Return a pool without who saw its nodes."""
    return replace(pool, nodes=tuple(replace(part, source=None) for part in pool.nodes or ()))


@pytest.mark.parametrize("release", RELEASES)
def test_equal_machines_are_equal_clusters(release: str) -> None:
    """Three releases of Slurm show the same machines in three shapes."""
    clusters = [
        ClusterInventory(
            pools=tuple(
                without_source(pool)
                for pool in build_pools(
                    read_samples(*RELEASES[name]), observed_at=NOW, aliases={}
                ).pools
            )
        )
        for name in ("26.05.5", release)
    ]

    by_name = [{pool.name: pool for pool in cluster.pools} for cluster in clusters]
    nodes = [
        {part.name: part for pool in cluster.pools for part in pool.nodes or ()}
        for cluster in clusters
    ]
    assert nodes[0] == nodes[1]
    assert [set(names) for names in by_name] == [
        {"a100-sxm4-80gb-x8", "a100-sxm4-40gb-x4", "zeta9000-x2"}
    ] * 2


def test_a_node_keeps_who_saw_it_and_when() -> None:
    """What is used and why it takes no work come with it."""
    used = replace(A100, used=(ObservedUse(holder="ml/p", num_gpus=2),))
    closed = replace(node("n1", used), unavailable="cordoned", used_host_bytes=GIB)

    (part,) = pools_of(closed).pools[0].nodes or ()

    assert (part.source, part.observed_at) == ("kubernetes", NOW)
    assert (part.state, part.unavailable) == (NodeState.DRAINED, "cordoned")
    assert part.allocated_gpus == 2
    assert [(use.holder, use.host_memory_bytes) for use in part.allocations] == [
        ("ml/p", 0),
        ("host memory in use", GIB),
    ]


def test_small_differences_of_host_memory_make_no_pool() -> None:
    """Machines of one type differ by kilobytes; the pool has the smallest."""
    result = pools_of(
        node("a", memory=1000 * GIB), node("b", memory=999 * GIB), node("c", memory=500 * GIB)
    )

    assert [(pool.name, pool.host_memory_bytes, pool.total_gpus) for pool in result.pools] == [
        ("a100-sxm4-80gb-x8", 999 * GIB, 16),
        ("a100-sxm4-80gb-x8-2", 500 * GIB, 8),
    ]


def test_nodes_of_one_nvlink_domain_are_an_island() -> None:
    """They follow each other in the pool, whatever their order in the file."""
    gpus = replace(A100, count=4)
    nodes = [
        replace(node(f"n{number}", gpus), nvlink_domain=f"rack.{number % 2}") for number in range(4)
    ]

    (pool,) = pools_of(*nodes).pools

    assert pool.nvlink_island_size == 8
    assert [part.name for part in pool.nodes or ()] == ["n0", "n2", "n1", "n3"]


def test_shared_gpus_are_a_pool_of_their_own() -> None:
    """A pod there has the time of a GPU and no part of its memory."""
    (pool,) = pools_of(node("n1", replace(A100, replicas=4))).pools

    assert (pool.name, pool.gpu_replicas) == ("a100-sxm4-80gb-x8-shared", 4)


def test_an_unknown_gpu_is_kept_with_its_memory() -> None:
    """What a process can allocate is less than the driver's total, by what it says or withholds."""
    zeta = ObservedGpus(name="Zeta-9000", count=4, memory_bytes=24 * GIB, mig_gpus=0)
    exact = replace(zeta, name="Eta", reserved_bytes=GIB)

    result = pools_of(
        node("n1", zeta),
        node("n2", exact),
        node("n3", replace(zeta, name="Theta", memory_bytes=None)),
    )

    memories = {pool.gpu: pool.gpu_memory_bytes for pool in result.pools}
    assert memories["Eta"] == 23 * GIB
    assert memories["Theta"] == 0
    assert 0 < (memories["Zeta-9000"] or 0) < 24 * GIB
    assert all(
        (memories["Zeta-9000"] or 0) * entry.capacity_bytes <= 24 * GIB * entry.usable_bytes
        for entry in (resolve_gpu("T4"), resolve_gpu("H100-SXM5-80GB"), resolve_gpu("L4"))
    )
    assert {gpu.name for gpu in result.unknown_gpus} == {"Zeta-9000", "Eta", "Theta"}


def test_an_ambiguous_name_is_asked_for() -> None:
    """Ray says A100, which has 40 or 80 GB: nothing is guessed, and the sender can say which."""
    ray = ObservedGpus(name="A100", count=8, mig_gpus=0)

    unsaid, said = (
        pools_of(node("n1", ray)),
        pools_of(node("n1", ray), a100=NamedGpu(name="A100-SXM4-40GB")),
    )

    assert unsaid.pools[0].gpu_memory_bytes == 0
    assert {"A100-SXM4-40GB", "A100-SXM4-80GB"} <= set(unsaid.unknown_gpus[0].candidates)
    assert (said.pools[0].gpu, said.unknown_gpus) == ("A100-SXM4-40GB", ())


@pytest.mark.parametrize(
    ("gpus", "name"),
    [
        (ObservedGpus(name="nvidia_a100-sxm4-80gb", count=1), "A100-SXM4-80GB"),
        (ObservedGpus(name="Tesla-T4", count=1, memory_bytes=15360 << 20), "T4"),
        (
            ObservedGpus(name="a100", count=0, slices=(ObservedSlices(profile="1g.5gb", total=7),)),
            None,
        ),
    ],
)
def test_names_of_tools_are_names_of_the_catalogue(gpus: ObservedGpus, name: str | None) -> None:
    """Its aliases and the driver's memory tell them; several that are left are none."""
    named = name_gpu(gpus, {})

    assert named.memory_bytes is None if name else named.memory_bytes == 0
    assert name is None or named.name == name


def test_less_memory_than_the_catalogue_has_is_another_gpu() -> None:
    """A driver that shows 40 GiB of an 80 GB card gives no process more than that."""
    named = name_gpu(replace(A100, memory_bytes=40 * GIB), {})

    assert named.name == "NVIDIA A100-SXM4-80GB 40960 MiB"
    assert 0 < (named.memory_bytes or 0) < 40 * GIB


def test_slices_are_of_as_few_gpus_as_can_have_them() -> None:
    """Where a tool shows the slices alone, 14 of seven each are two GPUs, beside three whole."""
    cut = ObservedGpus(
        name="nvidia_a100-sxm4-40gb",
        count=3,
        slices=(ObservedSlices(profile="1g.5gb", total=14, used=5),),
    )

    (pool,) = pools_of(node("n1", cut)).pools

    (part,) = pool.nodes or ()
    assert (pool.gpus_per_node, part.mig_gpus) == (5, 2)
    assert part.mig_slices == (MigSlices(profile="1g.5gb", total=14, allocated=5),)


@pytest.mark.parametrize(
    ("sample", "slices"),
    [
        ("nvidia_smi_a100_mig.xml", MigSlices(profile="3g.20gb", total=2)),
        ("nvidia_smi_a100_80gb_mig.xml", MigSlices(profile="1g.20gb", total=4)),
    ],
)
def test_a_slice_without_a_profile_is_told_by_its_size(sample: str, slices: MigSlices) -> None:
    """19,968 MiB are 3g.20gb of one card and 1g.20gb or 2g.20gb of another, by processors."""
    result = build_pools(read_samples(sample, node="h1"), observed_at=NOW, aliases={})

    (part,) = result.pools[0].nodes or ()
    assert part.mig_slices == (slices,)


def test_slices_that_the_catalogue_does_not_have_are_left_out() -> None:
    """Their GPU stays cut, so that nobody is promised it."""
    cut = replace(A100, count=7, mig_gpus=1, slices=(ObservedSlices(profile="9g.99gb", total=1),))

    result = pools_of(node("n1", cut))

    (part,) = result.pools[0].nodes or ()
    assert (part.mig_gpus, part.mig_slices) == (1, ())
    assert "9g.99gb" in result.omissions[0].reason


def test_two_kinds_of_gpu_are_two_pools() -> None:
    """One machine may have cards of two kinds."""
    result = pools_of(node("n1", A100, ObservedGpus(name="NVIDIA L4", count=1, mig_gpus=0)))

    assert [pool.gpu for pool in result.pools] == ["A100-SXM4-80GB", "L4"]


def test_names_that_no_host_has_are_left_out() -> None:
    """A port goes; anything else is named and left out."""
    result = pools_of(node("10.0.0.1:9400"), node("a b\x00\u2603"), node("x" * 400))

    assert [part.name for pool in result.pools for part in pool.nodes or ()] == ["10.0.0.1"]
    assert result.omissions[0].what.startswith("a b??, x")


def test_more_is_never_used_than_there_is() -> None:
    """Time slices and stale jobs may add up to more GPUs than a node has."""
    busy = replace(
        A100,
        count=2,
        used=(
            ObservedUse(holder="a", num_gpus=1, gpu_indices=(1,)),
            ObservedUse(holder="b", num_gpus=3, gpu_indices=(0, 1, 2)),
        ),
    )

    (part,) = pools_of(node("n1", busy)).pools[0].nodes or ()

    assert [(use.num_gpus, use.gpu_indices) for use in part.allocations] == [(1, (1,)), (1, None)]
