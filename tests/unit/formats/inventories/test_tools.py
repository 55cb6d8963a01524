"""nvidia-smi, the DCGM exporter, Ray, dstack and SkyPilot, and input that is none of them."""

import json

import pytest

from service.formats.inventories.detect import MAX_SECTIONS, ReadingOptions, read_inventory
from service.formats.inventories.observed import (
    InventoryFormat,
    InventoryFormatError,
    ObservedGpus,
    ObservedNode,
    ObservedSlices,
    ObservedUse,
)
from tests.unit.formats.inventories.listing_samples import load_text, read_samples

SMI = "nvidia_smi_a100_mig.xml"
DCGM = """DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",modelName="NVIDIA L4",Hostname="h1"} 22500
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",modelName="NVIDIA L4",Hostname="h1"} 34
DCGM_FI_DEV_FB_RESERVED{gpu="0",UUID="GPU-a",modelName="NVIDIA L4",Hostname="h1"} 500
DCGM_FI_DEV_FB_FREE{gpu="1",UUID="GPU-b",modelName="NVIDIA L4",Hostname="h1",namespace="ml",pod="p"} 0
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",modelName="NVIDIA L4",Hostname="h1",namespace="ml",pod="p"} 22534
DCGM_FI_DEV_FB_RESERVED{gpu="1",UUID="GPU-b",modelName="NVIDIA L4",Hostname="h1",namespace="ml",pod="p"} 500
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-c",modelName="NVIDIA A30",Hostname="h2",GPU_I_PROFILE="1g.6gb",GPU_I_ID="3"} 5900
"""  # noqa: E501 - as the exporter prints them


def only_node(*contents: object, node: str | None = None) -> ObservedNode:
    """Return the one node of some contents."""
    (read,) = read_inventory(list(contents), options=ReadingOptions(node=node)).nodes
    return read


def test_nvidia_smi_says_what_the_driver_reserves() -> None:
    """Slices have a size and no profile; the host is the sender's to say."""
    inventory = read_samples(SMI, node="h1")

    assert inventory.source == "nvidia-smi 510.47.03"
    assert inventory.nodes == (
        ObservedNode(
            name="h1",
            gpus=(
                ObservedGpus(
                    name="NVIDIA A100-SXM4-40GB",
                    count=0,
                    memory_bytes=40 << 30,
                    reserved_bytes=605 << 20,
                    slices=(ObservedSlices(total=2, memory_bytes=19968 << 20, multiprocessors=42),),
                    mig_gpus=1,
                ),
            ),
        ),
    )


def test_processes_use_a_gpu() -> None:
    """A GPU with any process is not free."""
    text = (
        "<nvidia_smi_log>"
        + "".join(
            "<gpu><product_name>NVIDIA L4</product_name><fb_memory_usage><total>23034 MiB</total>"
            f"</fb_memory_usage><processes>{processes}</processes></gpu>"
            for processes in ("", "<process_info><pid>7</pid></process_info>")
        )
        + "</nvidia_smi_log>"
    )

    (gpus,) = only_node(text, node="h1").gpus

    assert gpus.used == (ObservedUse(holder="processes", num_gpus=1, gpu_indices=(1,)),)


def test_a_page_of_dcgm_has_every_host() -> None:
    """A card's memory is the sum of its parts; a pod's GPU is used; slices have a profile."""
    first, second = read_inventory([DCGM]).nodes

    (gpus,) = first.gpus
    assert (first.name, gpus.name, gpus.count, gpus.memory_bytes) == (
        "h1",
        "NVIDIA L4",
        2,
        23034 << 20,
    )
    assert (gpus.reserved_bytes, gpus.used) == (
        500 << 20,
        (ObservedUse(holder="ml/p", num_gpus=1),),
    )
    assert second.gpus[0].slices == (ObservedSlices(profile="1g.6gb", total=1),)
    assert (second.gpus[0].count, second.gpus[0].mig_gpus) == (0, 1)


def test_a_slice_of_a_pod_is_used() -> None:
    """As its page says."""
    labels = 'gpu="0",UUID="GPU-1",modelName="NVIDIA A30",GPU_I_PROFILE="1g.6gb",hostname="h"'
    text = "\n".join(
        f'DCGM_FI_DEV_FB_USED{{{labels},GPU_I_ID="{number}"{pod}}} 3700'
        for number, pod in ((3, ',pod="p"'), (4, ""))
    )

    (gpus,) = only_node(text).gpus

    assert gpus.slices == (ObservedSlices(profile="1g.6gb", total=2, used=1),)


@pytest.mark.parametrize(
    "row",
    [
        {
            "node_id": "f00",
            "node_ip": "10.0.0.7",
            "state": "ALIVE",
            "node_name": "h1",
            "resources_total": {"GPU": 8.0, "accelerator_type:A100": 1.0, "memory": 1e12},
            "labels": {"ray.io/node-id": "f00"},
        },
        {
            "NodeID": "f00",
            "Alive": True,
            "NodeManagerHostname": "h1",
            "Resources": {"GPU": 8.0, "accelerator_type:A100": 1.0, "memory": 1e12},
            "Labels": {},
        },
    ],
    ids=["list", "nodes"],
)
def test_ray_names_a_kind_without_memory(row: dict[str, object]) -> None:
    """Both of its listings say the same, and a dead node is left out."""
    dead = {**row, "Alive": False, "state": "DEAD"}

    inventory = read_inventory([[row, dead]])

    assert inventory.nodes == (
        ObservedNode(
            name="h1",
            gpus=(ObservedGpus(name="A100", count=8, mig_gpus=0),),
            host_memory_bytes=10**12,
        ),
    )
    assert inventory.omissions[0].what == "1 nodes"


def test_dstack_gives_gpus_out_in_blocks() -> None:
    """Half of the blocks are busy, so half of the GPUs are; an instance that ends is left out."""
    gpu = {"vendor": "nvidia", "name": "H100", "memory_mib": 81920}
    instance = {
        "name": "fleet-0",
        "status": "busy",
        "instance_type": {"resources": {"memory_mib": 1 << 20, "gpus": [gpu] * 8}},
        "total_blocks": 4,
        "busy_blocks": 2,
    }
    fleet = {
        "name": "fleet",
        "spec": {},
        "instances": [instance, {**instance, "status": "terminating"}],
    }

    node = only_node(fleet)

    assert node.gpus == (
        ObservedGpus(
            name="H100",
            count=8,
            memory_bytes=80 << 30,
            used=(ObservedUse(holder="dstack", num_gpus=4),),
            mig_gpus=0,
        ),
    )
    assert node.host_memory_bytes == 1 << 40


def test_skypilot_shows_nodes_of_kubernetes_and_slurm() -> None:
    """What is free is subtracted, and a cordoned node is closed."""
    info = {
        "name": "k1",
        "accelerator_type": "H100",
        "total": {"accelerator_count": 8, "accelerator_allocatable": 8},
        "free": {"accelerators_available": 6},
        "memory_gb": 1024.0,
        "is_ready": True,
        "is_cordoned": True,
    }
    slurm = {
        "node_name": "s1",
        "node_state": "mixed",
        "gpu_type": "l4",
        "total_gpus": 4,
        "free_gpus": 1,
    }

    kubernetes = only_node({"node_info_dict": {"k1": info}, "hint": ""})
    node = only_node([slurm])

    assert (kubernetes.gpus[0].used[0].num_gpus, kubernetes.unavailable) == (2, "cordoned")
    assert kubernetes.host_memory_bytes == 1 << 40
    assert (node.gpus[0].name, node.gpus[0].used[0].num_gpus) == ("l4", 3)


def test_a_price_list_is_no_inventory() -> None:
    """It says what can be rented; the refusal says what to send."""
    prices = {"H100": [{"cloud": "aws", "accelerator_name": "H100", "accelerator_count": 8}]}

    with pytest.raises(InventoryFormatError, match=r"price list.*kubernetes_node_info"):
        read_inventory([prices])


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    "<nvidia_smi_log>&b;</nvidia_smi_log>"
)
BAD: dict[str, tuple[object, str]] = {
    "nothing": (" \n", "is empty"),
    "prose": ("hello", "is no JSON"),
    "a table of nvidia-smi": ("| NVIDIA-SMI 550.90 |", "send `nvidia-smi -q -x`"),
    "a list of nvidia-smi": ("GPU 0: NVIDIA L4 (UUID: GPU-1)", "send `nvidia-smi -q -x`"),
    "a table of sinfo": (
        "PARTITION AVAIL NODES STATE NODELIST\ngpu up 3 idle n[1-3]",
        "send `scontrol show nodes",
    ),
    "kubectl describe": ("Name:  n1\nRoles:  <none>\n", "send `kubectl get nodes,pods -A"),
    "ray status": ("==== Autoscaler status: 2026 ====", "send `ray list nodes"),
    "cut off": (load_text("slurm_24_11_scontrol.json")[:3000], "is no JSON"),
    "another yaml": ("kind: Pod\nspec: {}\n", "lists neither nodes|has no known form"),
    "broken yaml": ("kind: [\n", "is neither YAML nor JSON.*send JSON"),
    "another object": ({"a": 1}, "has no known form"),
    "one and a half": ('{"nodes": []} {"nodes"', "is no JSON"),
    "an empty list": ([], "has no object"),
    "entities": (BOMB, "declares an entity"),
    "an outer entity": (
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><nvidia_smi_log/>',
        "declares an entity",
    ),
    "broken xml": ("<nvidia_smi_log>", "is no XML"),
    "deep xml": ("<a>" * 60 + "</a>" * 60, "is deeper than 16"),
    "other xml": ("<html></html>", "shows no GPU"),
    "deep json": ("[" * 100_000, "is nested too deeply|is no JSON"),
    "long number": ('{"nodes": ' + "9" * 5000 + "}", "has a number of 5000 digits"),
    "no number": ('{"nodes": NaN}', "has NaN, which is no number"),
    "many parts": ([{"node_name": "n", "total_gpus": 1}] * (MAX_SECTIONS + 1), "has 20,001 parts"),
    "many gpus": (
        {"nodes": [{"name": "n", "gres": "gpu:a100:100000"}]},
        "has 100,000 GPUs on one node",
    ),
    "long gres": ({"nodes": [{"name": "n", "gres": "gpu," * 9000}]}, "characters of gres"),
    "one node twice": (
        {
            "instances": [{"name": "n", "instance_type": {"resources": {"gpus": [{}]}}}] * 2,
            "spec": 1,
        },
        "shows node 'n' twice",
    ),
    "ray without detail": (
        [{"node_id": "f", "node_ip": "10.0.0.7", "state": "ALIVE"}],
        "send `ray list nodes --format json --detail`",
    ),
    "wrong types": (
        {"nodes": [{"name": 7, "gres": [], "state": {}}, {"name": "n", "gres": 8, "state": 3}]},
        "",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_words(name: str) -> None:
    """Whatever comes in, the reader refuses it by its own error or reads nothing of it."""
    content, message = BAD[name]

    if message:
        with pytest.raises(InventoryFormatError, match=message):
            read_inventory([content])
    else:
        assert read_inventory([content]).nodes == ()


def test_a_node_without_a_name_is_asked_for() -> None:
    """nvidia-smi does not say on which host it ran."""
    with pytest.raises(InventoryFormatError, match="does not say which") as refused:
        read_inventory([load_text(SMI)])

    assert refused.value.field == "node"


def test_a_declared_tool_must_be_the_contents() -> None:
    """A listing of another tool is not read as if it were the declared one."""
    with pytest.raises(InventoryFormatError, match="declared as ray, and has the form of slurm"):
        read_inventory(
            [json.loads(load_text("slurm_24_11_scontrol.json"))], declared=InventoryFormat.RAY
        )


def test_tools_are_not_mixed() -> None:
    """Two listings of one import are of one tool."""
    with pytest.raises(InventoryFormatError, match="mixes dstack and slurm"):
        read_inventory([{"nodes": []}, {"instances": [], "spec": {}}])
