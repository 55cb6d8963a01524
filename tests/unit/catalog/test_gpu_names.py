"""Names of GPUs: those of drivers, labels, schedulers and people, and those that are refused."""

import pytest

from service.base.errors import UnknownGpuError
from service.catalog.gpu_entries import GpuEntry
from service.catalog.gpus import (
    find_driver_name,
    find_gpus,
    list_gpus,
    resolve_device,
    resolve_gpu,
)
from service.estimator.memory.overheads.gpu_properties import get_gpu_properties
from service.estimator.values.units import MIB

SYSTEMS = ("nvml", "gfd", "dcgm", "amdsmi", "hlsmi", "nvidia")
"""Who names a device by its SKU; Ray and SkyPilot name families."""
SKUS = pytest.mark.parametrize("entry", list_gpus(), ids=lambda entry: entry.name)


@SKUS
def test_own_name_means_itself_alone(entry: GpuEntry) -> None:
    """The name that answers carry can always be sent back, in any spelling."""
    assert resolve_gpu(entry.name) is entry
    assert resolve_gpu(entry.name.lower().replace("-", "_")) is entry


@SKUS
def test_nvml_and_feature_discovery_names_are_unambiguous(entry: GpuEntry) -> None:
    """What a driver or a node label says means one SKU, where its memory is told as well: cards of
    two sizes share a name.
    """
    system_names = [name for system in SYSTEMS for name in entry.aliases.get(system, ())]

    assert system_names
    assert {find_driver_name(name, entry.capacity_bytes) for name in system_names} == {entry.name}


def test_cards_that_share_a_drivers_name_differ_in_memory() -> None:
    """``NVIDIA GeForce RTX 3060`` has 12 or 8 GiB: without its size nobody knows which."""
    names = {entry.name for entry in find_gpus("NVIDIA GeForce RTX 3060")}

    assert names == {"RTX-3060-8GB", "RTX-3060-12GB"}
    assert find_driver_name("NVIDIA GeForce RTX 3060") is None
    assert find_driver_name("NVIDIA GeForce RTX 3060", 12288 * MIB) == "RTX-3060-12GB"


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("nvidia_a100-sxm4-80gb", "A100-SXM4-80GB"),
        ("NVIDIA-H100-80GB-HBM3", "H100-SXM5-80GB"),
        ("H200", "H200-SXM5-141GB"),
        ("h100-pcie", "H100-PCIE-80GB"),
        ("rtx 4090", "RTX-4090"),
        ("RTX4090", "RTX-4090"),
        ("Tesla T4", "T4"),
        ("A30", "A30"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX-PRO-6000-Server"),
        ("NVIDIA GH200 480GB", "GH200-96GB"),
        ("AMD-Instinct-MI325X-OAM", "MI325X-256GB"),
        ("RTX6000-Ada", "RTX-6000-Ada"),
        ("HL-225", "Gaudi2-96GB"),
    ],
)
def test_finds_a_gpu_by_the_names_of_others(alias: str, name: str) -> None:
    """Drivers, node labels, Slurm, Ray and SkyPilot each have their own spelling."""
    assert resolve_gpu(alias).name == name


@pytest.mark.parametrize("alias", ["A100", "a100", "A100-80GB", "H100", "V100"])
def test_ambiguous_name_is_refused_with_every_sku(alias: str) -> None:
    """A name that several SKUs share names all of them and picks none."""
    with pytest.raises(UnknownGpuError, match="ambiguous") as refused:
        resolve_gpu(alias, field="gpu")

    candidates = find_gpus(alias)
    assert len(candidates) > 1
    assert all(entry.name in refused.value.detail for entry in candidates)
    assert refused.value.extra["errors"] == [{"field": "gpu", "message": refused.value.detail}]


def test_unknown_name_is_refused_with_the_nearest() -> None:
    """A slip of the finger is told what was meant."""
    with pytest.raises(UnknownGpuError, match="A100-SXM4-80GB"):
        resolve_gpu("A100-SMX4-80GB")


@pytest.mark.parametrize("typed", ["2x RTX 5090", "2 x rtx-5090", "2xRTX5090"])
def test_a_number_of_gpus_is_told_where_it_is_said(typed: str) -> None:
    """How GPUs share a job is the layout's, and not a part of their name."""
    with pytest.raises(UnknownGpuError, match=r"RTX-5090.*tensor_parallel 2"):
        resolve_gpu(typed)


def test_a_name_like_nothing_is_told_what_is_known() -> None:
    """Where nothing is near, every server GPU is named, where the others are listed, and how any is
    asked about.
    """
    with pytest.raises(UnknownGpuError) as refused:
        resolve_gpu("abacus")

    message = refused.value.detail
    assert all(entry.family in message for entry in list_gpus() if entry.form == "server")
    assert "GET /v1/gpus" in message
    assert 'gpu.memory_bytes "12Gi"' in message


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("4090", "RTX-4090"),
        ("rtx 4090", "RTX-4090"),
        ("RTX4090 24GB", "RTX-4090"),
        ("nvidia geforce rtx 4090", "RTX-4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "RTX-4090-Laptop"),
        ("4090 mobile", "RTX-4090-Laptop"),
        ("geforce 3060 ti", "RTX-3060-Ti"),
        ("3060 12GB", "RTX-3060-12GB"),
        ("RTX 4060 Ti 16G", "RTX-4060-Ti-16GB"),
        ("4070 Ti Super", "RTX-4070-Ti-SUPER"),
        ("4070TiS", "RTX-4070-Ti-SUPER"),
        ("4080s", "RTX-4080-SUPER"),
        ("5070ti", "RTX-5070-Ti"),
        ("A6000", "RTX-A6000"),
        ("a2000 12gb", "RTX-A2000-12GB"),
        ("NVIDIA RTX 6000 Ada Gene...", "RTX-6000-Ada"),
        ("RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-Server"),
        ("A100 80GB SXM", "A100-SXM4-80GB"),
        ("A100 PCIe 40GB", "A100-PCIE-40GB"),
        ("H100 SXM", "H100-SXM5-80GB"),
        ("L40S 48GB", "L40S"),
        ("T4 16GB", "T4"),
        ("B200 192GB", "B200-SXM6-180GB"),
        ("DGX Spark", "GB10-128GB"),
        ("jetson thor", "Jetson-Thor-T5000-128GB"),
        ("AGX Orin 64GB", "Jetson-AGX-Orin-64GB"),
    ],
)
def test_finds_a_gpu_as_people_type_it(typed: str, name: str) -> None:
    """Makers' words, spaces, sizes and shortened names change nothing."""
    assert resolve_gpu(typed).name == name


@pytest.mark.parametrize("entry", list_gpus(), ids=lambda entry: entry.name)
def test_a_name_with_its_size_means_itself(entry: GpuEntry) -> None:
    """What the catalogue calls a GPU, typed with spaces, is still that one."""
    assert resolve_gpu(entry.name.replace("-", " ")) is entry


@pytest.mark.parametrize(
    ("typed", "candidates"),
    [
        ("3060", {"RTX-3060-8GB", "RTX-3060-12GB"}),
        ("RTX 5060 Ti", {"RTX-5060-Ti-8GB", "RTX-5060-Ti-16GB"}),
        ("A100 SXM", {"A100-SXM4-40GB", "A100-SXM4-80GB"}),
        ("Orin NX", {"Jetson-Orin-NX-16GB", "Jetson-Orin-NX-8GB"}),
    ],
)
def test_a_name_of_two_sizes_is_refused_with_both(typed: str, candidates: set[str]) -> None:
    """No size is guessed: the smaller one would refuse what runs, the larger one the reverse."""
    with pytest.raises(UnknownGpuError, match="ambiguous") as refused:
        resolve_gpu(typed)

    assert all(name in refused.value.detail for name in candidates)


def test_a_size_that_does_not_exist_is_told_apart() -> None:
    """A card that somebody refitted with 48 GB is asked about by its memory."""
    with pytest.raises(UnknownGpuError, match="there is RTX-4090, and none of 48 GB") as refused:
        resolve_gpu("RTX 4090 48GB")

    assert 'gpu.memory_bytes "48Gi"' in refused.value.detail


@pytest.mark.parametrize(
    ("typed", "what", "instead"),
    [
        ("M3 Max", "Apple silicon", "llama_cpp"),
        ("apple m2 ultra 192GB", "Apple silicon", "gpu.memory_bytes"),
        ("mps", "Apple silicon", "gpu.memory_bytes"),
        ("MacBook Pro", "Apple silicon", "gpu.memory_bytes"),
        ("tpu v5e", "TPU", "H100-SXM5-80GB"),
        ("v6e", "TPU", "H100-SXM5-80GB"),
        ("TPU-v4-8", "TPU", "H100-SXM5-80GB"),
        ("trn2", "Trainium", "A100-SXM4-40GB"),
        ("RX 7900 XTX", "AMD GPU for desktops", "gpu.memory_bytes"),
        ("Arc B580", "Intel GPU", "gpu.memory_bytes"),
        ("cpu", "no GPU", "llama_cpp"),
        ("Ascend 910B", "software of its own", "A100-SXM4-80GB"),
        ("Grace Hopper", "CPU and a GPU", "GH200-96GB"),
        ("Jetson Xavier", "Jetson before Orin", "gpu.memory_bytes"),
        ("VR200 NVL144", "Rubin", 'gpu.memory_bytes "288Gi"'),
        ("T4G", "AWS's T4", "say T4"),
        ("GTX 1080 Ti", "Pascal", 'gpu.memory_bytes "11Gi"'),
        ("NVIDIA GeForce GTX 1060 3GB", "Pascal", 'gpu.memory_bytes "3Gi"'),
        ("gtx1660-super", "Turing", 'gpu.memory_bytes "6Gi"'),
        ("TITAN V", "Volta", "V100-PCIE-32GB"),
        ("Tesla-K80", "Kepler", "no engine of today"),
        ("M40", "Maxwell", "vLLM, SGLang and LMDeploy need 7.0"),
        ("MI100", "CDNA", "MI210-64GB"),
    ],
)
def test_other_accelerators_are_refused_in_words(typed: str, what: str, instead: str) -> None:
    """Who asks for what has no term is told why, and what would be right."""
    with pytest.raises(UnknownGpuError) as refused:
        resolve_gpu(typed)

    assert what in refused.value.detail
    assert instead in refused.value.detail


@pytest.mark.parametrize(
    "typed",
    [
        "A100-SXM4-80GB/1g.10gb",
        "A100-SXM4-80GB / 1g.10gb",
        "a100-sxm4-80gb/MIG-1g.10gb+me",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        "A100 80GB SXM/1g.10gb",
    ],
)
def test_a_slice_is_named_as_drivers_labels_and_people_do(typed: str) -> None:
    """One slice, whoever spells it: 14 of 108 processors, an eighth of the memory."""
    device = resolve_device(typed)

    assert device.name == "A100-SXM4-80GB-MIG-1g.10gb"
    assert get_gpu_properties(device).num_processors == 14
    assert device.peak_flops["bf16"] == 312 * 10**12 * 14 // 108


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("A100-SXM4-80GB/1g.5gb", "it has: 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"),
        ("T4/1g.5gb", "MIG does not cut it; it cuts A100"),
        ("A100/1g.10gb", "ambiguous: say A100-SXM4-40GB (40.00 GiB) or A100-SXM4-80GB"),
    ],
)
def test_a_slice_that_does_not_exist_is_refused_with_those_that_do(typed: str, told: str) -> None:
    """The profiles of the GPU are listed, or the GPUs that have some."""
    with pytest.raises(UnknownGpuError) as refused:
        resolve_device(typed)

    assert told in refused.value.detail


def test_a_superchip_is_named_by_the_memory_of_its_host() -> None:
    """The driver calls it a GH200 480GB, and 480 GB of GPU memory were looked for."""
    assert resolve_gpu("GH200 480GB").name == resolve_gpu("NVIDIA GH200 480GB").name == "GH200-96GB"
