"""Kubernetes nodes: feature discovery, MIG, shared GPUs, HAMi and ResourceSlices."""

import json

import pytest
import yaml
from kubernetes_validate import validate

from service.formats.gpu_requests.kubernetes_quantities import read_quantity
from service.formats.inventories.detect import read_inventory
from service.formats.inventories.feature_discovery import read_gpus
from service.formats.inventories.observed import (
    InventoryFormatError,
    ObservedGpus,
    ObservedSlices,
    ObservedUse,
    Omission,
)
from tests.unit.formats.inventories.listing_samples import index_nodes, load_text, read_samples

NODES = index_nodes(read_samples("kubernetes_nodes.json"))


def gpus_of(name: str) -> ObservedGpus:
    """Return the only kind of GPU of a node."""
    (gpus,) = NODES[name].gpus
    return gpus


def test_pods_that_run_use_gpus() -> None:
    """Ended and unscheduled pods hold none; a container that starts first takes no more beside."""
    node = NODES["whole-1"]

    assert gpus_of("whole-1").used == (ObservedUse(holder="ml/sft-0", num_gpus=3),)
    assert (gpus_of("whole-1").count, gpus_of("whole-1").memory_bytes) == (8, 80 << 30)
    assert node.used_host_bytes == 65 << 30
    assert node.unavailable is None


def test_gpus_that_the_kubelet_withholds_are_not_free() -> None:
    """Seven of eight can be given out: one is sick."""
    assert gpus_of("whole-2").used == (ObservedUse(holder="not allocatable", num_gpus=1),)


def test_nodes_that_take_no_work_say_why() -> None:
    """What is closed stays in the inventory, apart from what is free."""
    reasons = {name: NODES[name].unavailable for name in ("cordoned", "team", "sick")}

    assert reasons == {
        "cordoned": "cordoned",
        "team": "tainted dedicated=research",
        "sick": "not ready",
    }
    tolerant = index_nodes(read_samples("kubernetes_nodes.json", tolerated="dedicated"))
    assert tolerant["team"].unavailable is None


def test_the_single_strategy_counts_slices_as_gpus() -> None:
    """Feature discovery writes the slice's name in place of the GPU's, and counts slices."""
    assert gpus_of("single") == ObservedGpus(
        name="NVIDIA-A100-SXM4-40GB",
        count=0,
        slices=(ObservedSlices(profile="1g.5gb", total=14, used=4),),
        mig_gpus=None,
    )
    shared = gpus_of("single-shared")
    assert (shared.slices[0].total, shared.replicas) == (7, 2)


def test_the_mixed_strategy_has_slices_beside_gpus() -> None:
    """Its label counts all four GPUs, the device plugin offers the two that are whole."""
    gpus = gpus_of("mixed")

    assert (gpus.count, gpus.mig_gpus) == (2, 2)
    assert gpus.slices == (
        ObservedSlices(profile="1g.5gb", total=7, used=2),
        ObservedSlices(profile="3g.20gb", total=2),
    )


def test_slices_without_labels_are_those_that_are_offered() -> None:
    """Without feature discovery the device plugin's capacity alone tells them."""
    offered = {"nvidia.com/mig-1g.5gb": "7", "nvidia.com/mig-3g.20gb": "0", "cpu": "8"}

    (gpus,) = read_gpus(({}, {}), (offered, offered), ())

    assert (gpus.count, gpus.mig_gpus) == (0, 1)
    assert gpus.slices == (ObservedSlices(profile="1g.5gb", total=7),)


def test_time_slices_are_no_gpus() -> None:
    """Two cards are given out as eight, and their memory is that of the card."""
    gpus = gpus_of("sliced")

    assert (gpus.name, gpus.count, gpus.replicas, gpus.memory_bytes) == ("Tesla-T4", 2, 4, 15 << 30)
    assert gpus.used == (ObservedUse(holder="ml/half", num_gpus=1),)


def test_mps_leaves_no_gpu_to_one_job() -> None:
    """It limits each client to its part of the memory."""
    assert gpus_of("mps").used == (ObservedUse(holder="shared by MPS", num_gpus=1),)


def test_hami_registers_gpus_as_text_and_as_json() -> None:
    """The device plugin offers each ten times; who is on one is in the pod's annotation."""
    text, document = gpus_of("hami-text"), gpus_of("hami-json")

    assert (text.name, text.count, text.memory_bytes) == (
        "NVIDIA-Tesla V100-PCIE-32GB",
        2,
        32 << 30,
    )
    assert text.used == (
        ObservedUse(holder="ml/share", num_gpus=1, gpu_indices=(0,)),
        ObservedUse(holder="not allocatable", num_gpus=1, gpu_indices=(1,)),
    )
    assert (document.name, document.count, document.replicas) == ("NVIDIA L40S", 1, 10)


def test_labels_of_the_network_are_levels() -> None:
    """AWS numbers them from the outermost on; a node without them has none."""
    inventory = read_samples("kubernetes_nodes.json")

    assert inventory.level_names == tuple(f"network-node-layer-{layer}" for layer in (1, 2, 3))
    assert NODES["whole-1"].levels == ("nn-1", "nn-11", "nn-111")
    assert NODES["sick"].levels == ()


def test_kueue_says_which_labels_are_levels() -> None:
    """Its Topology goes before those of clouds; the host itself is no level."""
    topology = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Topology",
        "spec": {
            "levels": [
                {"nodeLabel": "example.com/block"},
                {"nodeLabel": "example.com/rack"},
                {"nodeLabel": "kubernetes.io/hostname"},
            ]
        },
    }
    labels = {"example.com/block": "b1", "example.com/rack": "r7", "nvidia.com/gpu.product": "L4"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": labels},
        "status": {"capacity": {"nvidia.com/gpu": "4"}, "allocatable": {"nvidia.com/gpu": "4"}},
    }

    inventory = read_inventory([topology, node])

    assert (inventory.level_names, inventory.nodes[0].levels) == (("block", "rack"), ("b1", "r7"))


def test_what_offers_nothing_is_named() -> None:
    """A node whose slices do not suit the strategy offers none, and neither does one of CPUs."""
    (omission,) = read_samples("kubernetes_nodes.json").omissions

    assert omission.what == "invalid, cpu"


def test_slices_are_valid_objects() -> None:
    """The API's own schema accepts every slice and claim that the reader is tested with."""
    for item in json.loads(load_text("resource_slices.json"))["items"]:
        validate(item, "1.37", strict=True)


def test_a_pool_counts_at_its_highest_generation_alone() -> None:
    """One GPU of an old slice is not added, and a pool with a missing slice is left out."""
    inventory = read_samples("resource_slices.json")
    nodes = index_nodes(inventory)

    (gpus,) = nodes["dra-1"].gpus
    assert (gpus.name, gpus.count, gpus.mig_gpus) == ("NVIDIA A100-SXM4-80GB", 2, 1)
    assert gpus.used == (
        ObservedUse(holder="ml/sft-0", num_gpus=1),
        ObservedUse(holder="tainted device", num_gpus=1),
    )
    assert gpus.slices == (ObservedSlices(profile="1g.10gb", total=2, used=1),)
    assert inventory.omissions == (
        Omission(what="pool gpu.nvidia.com/dra-2", reason="has 1 of 2 slices of generation 3"),
    )


def test_ways_to_cut_a_gpu_are_no_slices() -> None:
    """Devices that share counters with a GPU of the pool are not added to it."""
    (gpus,) = index_nodes(read_samples("resource_slices.json"))["dra-3"].gpus

    assert (gpus.count, gpus.slices, gpus.mig_gpus) == (1, (), 0)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("81559Mi", 81559 << 20), ("1k", 1000), ("2500m", 2), ("1.5Gi", 3 << 29), (8, 8)],
)
def test_quantities(text: object, amount: int) -> None:
    """Kubernetes writes amounts with binary and decimal prefixes."""
    assert read_quantity(text) == amount


@pytest.mark.parametrize("text", ["", "Gi", "1e400", "-1", "9" * 40, True, None, "9223372036Ei"])
def test_amounts_that_are_none(text: object) -> None:
    """What is no amount is not guessed."""
    assert read_quantity(text) is None


def test_pods_alone_are_no_inventory() -> None:
    """They say what is used, and not what there is."""
    with pytest.raises(InventoryFormatError, match="lists neither nodes nor ResourceSlices"):
        read_inventory([{"apiVersion": "v1", "kind": "PodList", "items": []}])


def test_yaml_and_json_show_the_same_nodes() -> None:
    """``kubectl -o yaml`` prints the same objects, after comments and in several documents too."""
    text = load_text("kubernetes_nodes.json")
    items = json.loads(text)["items"]
    whole = yaml.safe_dump(json.loads(text))
    parts = "\n--- # the next\n".join(["# nodes", *(yaml.safe_dump(item) for item in items)])

    expected = read_inventory([text]).nodes

    assert read_inventory([whole]).nodes == expected
    assert read_inventory([parts]).nodes == expected


def test_outputs_that_follow_each_other_are_one_listing() -> None:
    """Commands that append to a file leave several objects in it."""
    items = json.loads(load_text("kubernetes_nodes.json"))["items"]
    text = "\r\n".join(json.dumps(item) for item in items)

    nodes = read_inventory([f"\ufeff{text}\r\n"]).nodes

    assert nodes == read_inventory([load_text("kubernetes_nodes.json")]).nodes
