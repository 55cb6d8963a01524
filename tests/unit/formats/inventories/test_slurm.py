"""Slurm's JSON of three releases, printed by real controllers of the same machines."""

import json

import pytest

from service.formats.gpu_requests.gres import read_gres
from service.formats.inventories.detect import read_inventory
from service.formats.inventories.hostlists import expand_hostlist
from service.formats.inventories.observed import (
    InventoryFormatError,
    ObservedSlices,
    ObservedUse,
)
from service.formats.inventories.slurm_gres import build_gpus
from tests.unit.formats.inventories.listing_samples import index_nodes, load_text, read_samples

RELEASES = {
    "22.05.8": ("slurm_22_05_sinfo.json", "slurm_22_05_squeue.json"),
    "24.11.5": ("slurm_24_11_scontrol.json", "slurm_24_11_squeue.json"),
    "26.05.5": ("slurm_26_05_scontrol.json", "slurm_26_05_squeue.json"),
}


@pytest.mark.parametrize("release", RELEASES)
def test_equal_machines_are_equal_nodes_in_every_release(release: str) -> None:
    """22.05 writes plain numbers and a state as text, later releases objects and lists."""
    inventory = read_samples(*RELEASES[release])

    assert inventory.source == f"slurm {release}"
    assert index_nodes(inventory) == index_nodes(read_samples(*RELEASES["26.05.5"]))


@pytest.mark.parametrize("release", ["24_11", "26_05"])
def test_groups_of_sinfo_are_the_same_nodes(release: str) -> None:
    """Since 23.02 sinfo shows groups of nodes, which are taken apart."""
    groups = read_samples(f"slurm_{release}_sinfo.json", f"slurm_{release}_squeue.json")

    assert index_nodes(groups) == index_nodes(
        read_samples(f"slurm_{release}_scontrol.json", f"slurm_{release}_squeue.json")
    )


def test_what_there_is_and_what_is_used_are_apart() -> None:
    """Three GPUs of eight are a job's, by index; a drained node says why; slices are counted."""
    nodes = index_nodes(read_samples(*RELEASES["24.11.5"]))

    (gpus,) = nodes["n1"].gpus
    assert (gpus.name, gpus.count) == ("nvidia_a100-sxm4-80gb", 8)
    assert gpus.used == (ObservedUse(holder="root job 1", num_gpus=3, gpu_indices=(0, 1, 2)),)
    assert (nodes["n1"].host_memory_bytes, nodes["n1"].used_host_bytes) == (
        1_031_000 << 20,
        64 << 30,
    )
    assert (nodes["n1"].unavailable, nodes["n2"].unavailable) == (None, "drain: fan broken")
    (cut,) = nodes["n3"].gpus
    assert (cut.name, cut.count, cut.mig_gpus) == ("nvidia_a100-sxm4-40gb", 3, None)
    assert cut.slices == (ObservedSlices(profile="1g.5gb", total=7, used=2),)
    assert (nodes["n4"].gpus[0].name, nodes["n4"].gpus[0].memory_bytes) == ("zeta9000", None)
    assert "c1" not in nodes


def test_without_jobs_nobody_is_named() -> None:
    """The node itself says how many of its GPUs are used, and which."""
    nodes = index_nodes(read_samples("slurm_26_05_scontrol.json"))

    assert nodes["n1"].gpus[0].used == (
        ObservedUse(holder="slurm", num_gpus=3, gpu_indices=(0, 1, 2)),
    )


def test_counts_that_only_tres_has() -> None:
    """Some sites leave gres empty on nodes, and count GPUs in their TRES."""
    row = {"name": "n1", "state": ["IDLE"], "gres": "", "tres": "cpu=8,gres/gpu=4,gres/gpu:l4=4"}

    (node,) = read_inventory([{"nodes": [row]}]).nodes

    assert (node.gpus[0].name, node.gpus[0].count) == ("l4", 4)


def test_topology_is_levels_from_root_to_leaf() -> None:
    """26.05 writes a node's switches after the name of the topology."""
    rows = [
        {"name": name, "state": ["IDLE"], "gres": "gpu:l4:4", "topology": f"tree:root:{leaf}"}
        for name, leaf in (("n1", "s1"), ("n2", "s2"))
    ]

    inventory = read_inventory([{"nodes": rows}])

    assert inventory.level_names == ("level-1", "level-2")
    assert [node.levels for node in inventory.nodes] == [("root", "s1"), ("root", "s2")]


def test_shards_keep_their_gpus_from_others() -> None:
    """A GPU of which a shard is given out is given to no job as it is."""
    row = {
        "name": "n1",
        "state": "MIXED",
        "gres": "gpu:l4:4,shard:l4:32",
        "gres_used": "gpu:l4:0(IDX:N/A),shard:l4:5(2/8,3/8,0/8,0/8)",
    }

    (node,) = read_inventory([{"nodes": [row]}]).nodes

    assert sum(use.num_gpus for use in node.gpus[0].used) == 2


@pytest.mark.parametrize(
    ("fields", "used", "closed"),
    [
        ("Gres=gpu:a40:4(S:0-1) State=IDLE CfgTRES=cpu=8,gres/gpu=4 AllocTRES=", 0, None),
        ("Gres=gpu:4 State=MIXED CfgTRES=cpu=8,gres/gpu=4 AllocTRES=cpu=1,gres/gpu=3", 3, None),
        ("Gres=gpu:a40:4 State=MIXED CfgTRES=gres/gpu=4 AllocTRES=gres/gpu=2,gres/gpu:a40=2", 2,
         None),
        ("Gres=gpu:4 GresUsed=gpu:(null):3(IDX:0-2) State=MIXED CfgTRES=cpu=8", 3, None),
        ("Gres=gpu:a40:4 State=MIXED CfgTRES=cpu=8 AllocTRES=cpu=1", 4, None),
        ("Gres=gpu:a40:4 State=IDLE* CfgTRES=cpu=8 AllocTRES=", 0, None),
        ("Gres=gpu:a40:4 State=IDLE+DRAIN CfgTRES=cpu=8,gres/gpu=4 AllocTRES=\n   Reason=a fan [x]",
         0, "drain: a fan [x]"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("separator", [" ", "\n   "])
def test_what_scontrol_prints_for_people_is_read(
    fields: str, used: int, closed: str | None, separator: str
) -> None:
    """On lines or on one; where GPUs are not tracked, a node at work has none that are free."""
    words = fields.split(" ") if "Reason" not in fields else [fields]
    text = separator.join(["NodeName=n1 Arch=x86_64", "Version=25.05.2", *words])

    inventory = read_inventory([text + "\n\nNodeName=c1 Gres=(null) State=IDLE\n"])

    (node,) = inventory.nodes
    assert (node.name, node.gpus[0].count, node.unavailable) == ("n1", 4, closed)
    assert sum(use.num_gpus for use in node.gpus[0].used) == used
    assert inventory.source == "slurm 25.05.2"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[08-10],c1", ["n08", "n09", "n10", "c1"]),
        ("r[1-2]n[1,3]", ["r1n1", "r1n3", "r2n1", "r2n3"]),
    ],
)
def test_lists_of_hosts(text: str, names: list[str]) -> None:
    """Slurm shortens names by ranges, with leading zeros."""
    assert list(expand_hostlist(text)) == names


@pytest.mark.parametrize("text", ["n[1-99999999]", "n[1-", "n[5-1]", "n[1-200]x[1-200]"])
def test_lists_of_hosts_are_bounded(text: str) -> None:
    """A short text may not become a long list."""
    with pytest.raises(InventoryFormatError, match="is no list of 10,000 nodes or fewer"):
        expand_hostlist(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("gpu:8", [("", 8, None)]),
        ("gpu:a100:4(S:0-1),license:2,gpu:l4:1", [("a100", 4, None), ("l4", 1, None)]),
        ("gpu:a100:3(IDX:0,2-3)", [("a100", 3, (0, 2, 3))]),
        ("gpu:a100:3(IDX:0-1)", [("a100", 3, None)]),
        ("gres/gpu:a100=2", [("a100", 2, None)]),
        ("gpu:(null):4(IDX:0-3)", [("", 4, (0, 1, 2, 3))]),
        ("(null)", []),
    ],
)
def test_spellings_of_gres(text: str, read: list[tuple[str, int, tuple[int, ...] | None]]) -> None:
    """Nodes, jobs and TRES spell the same GPUs in three ways; other resources are none."""
    assert [(gres.type, gres.count, gres.indices) for gres in read_gres(text)] == read


def test_jobs_alone_are_no_inventory() -> None:
    """They say what is used, and not what there is."""
    with pytest.raises(InventoryFormatError, match="lists no nodes; send `scontrol show nodes"):
        read_inventory([json.loads(load_text("slurm_24_11_squeue.json"))])


def test_long_lists_take_the_time_of_their_length() -> None:
    """Three hundred thousand commas of names, and a node's longest text of resources: what reads a
    text again from each of its commas does not end here.
    """
    assert expand_hostlist("a" + "," * 300_000) == ("a",)
    assert all(read_gres("," * 16_384) == () for _ in range(100))


def test_a_node_of_more_types_than_any_has_is_refused() -> None:
    """Types are counted against each other, so that their number is bounded."""
    gres = read_gres(",".join(f"gpu:t{number}:1" for number in range(65)))

    with pytest.raises(InventoryFormatError, match="65 types of GPUs"):
        build_gpus(gres, (), ())
