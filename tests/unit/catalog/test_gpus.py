"""The GPU catalogue: complete, sourced, and found under the names that others use."""

from dataclasses import fields

import pytest

from service.base.errors import UnknownGpuError
from service.catalog.gpu_entries import GpuEntry
from service.catalog.gpus import (
    list_gpus,
    resolve_gpu,
)
from service.estimator.memory.overheads.gpu_properties import (
    find_gpu_properties,
)
from service.estimator.values.units import GIB, MIB

ASKED_FIRST = {
    *("V100", "T4", "A10G", "A100", "L4", "L40S", "RTX 3090", "RTX 4090", "RTX 5090", "RTX A6000"),
    *("H100", "H200", "H20", "B200", "GB200", "MI300X"),
    *(
        "P100",
        "RTX 2080 Ti",
        "A10",
        "A30",
        "A40",
        "RTX A5000",
        "L20",
        "L40",
        "RTX 4080",
        "RTX 4090 D",
        "RTX 6000 Ada",
    ),
    *("RTX PRO 6000", "A800", "H800", "H200 NVL", "H20-3e", "GH200", "B300", "GB300"),
    *("MI210", "MI250", "MI250X", "MI325X", "MI350X", "MI355X", "Gaudi2", "Gaudi3"),
}
GEFORCE = (
    *("RTX 3050", "RTX 3060", "RTX 3060 Ti", "RTX 3070", "RTX 3070 Ti", "RTX 3080", "RTX 3080 Ti"),
    *("RTX 3090", "RTX 3090 Ti", "RTX 4060", "RTX 4060 Ti", "RTX 4070", "RTX 4070 SUPER"),
    *("RTX 4070 Ti", "RTX 4070 Ti SUPER", "RTX 4080", "RTX 4080 SUPER", "RTX 4090", "RTX 4090 D"),
    *("RTX 5050", "RTX 5060", "RTX 5060 Ti", "RTX 5070", "RTX 5070 Ti", "RTX 5080", "RTX 5090"),
    *("RTX 5090 D", "RTX 3050 Laptop", "RTX 3060 Laptop", "RTX 3070 Laptop", "RTX 3070 Ti Laptop"),
    *("RTX 3080 Laptop", "RTX 3080 Ti Laptop", "RTX 4050 Laptop", "RTX 4060 Laptop"),
    *("RTX 4070 Laptop", "RTX 4080 Laptop", "RTX 4090 Laptop", "RTX 5060 Laptop"),
    *("RTX 5070 Laptop", "RTX 5070 Ti Laptop", "RTX 5080 Laptop", "RTX 5090 Laptop"),
)
WORKSTATION = (
    *("RTX A1000", "RTX A2000", "RTX A4000", "RTX A4500", "RTX A5000", "RTX A5500", "RTX A6000"),
    *("RTX 2000 Ada", "RTX 4000 Ada", "RTX 4500 Ada", "RTX 5000 Ada", "RTX 5880 Ada"),
    *("RTX 6000 Ada", "RTX PRO 2000", "RTX PRO 4000", "RTX PRO 4500", "RTX PRO 5000"),
    *("RTX PRO 6000", "Quadro RTX 6000", "Quadro RTX 8000"),
)
OTHERS = (
    *("P4", "P40", "A2", "A16", "L2", "GB10", "Jetson AGX Orin", "Jetson Orin NX"),
    *("Jetson Orin Nano", "Jetson Thor T5000", "Jetson Thor T4000"),
)
DESCRIPTIVE = {
    *("name", "vendor", "family", "form", "aliases", "sources"),
    "has_unified_memory",  # said in the source of the capacity
}
SKUS = pytest.mark.parametrize("entry", list_gpus(), ids=lambda entry: entry.name)


def test_has_every_family_that_people_ask_about_first() -> None:
    """No family is missing and no name is used twice."""
    names = [entry.name for entry in list_gpus()]

    families = {entry.family for entry in list_gpus()}
    assert families >= ASKED_FIRST | set(GEFORCE) | set(WORKSTATION) | set(OTHERS)
    assert len(set(names)) == len(names)
    assert len(names) >= 150


def test_has_gpus_of_three_makers_and_slices() -> None:
    """AMD, Intel and NVIDIA are there, and MIG of each generation that has it."""
    assert {entry.vendor for entry in list_gpus()} == {"nvidia", "amd", "intel"}
    assert {entry.family for entry in list_gpus() if entry.mig_profiles} >= {
        "A30",
        "A100",
        "H100",
        "B200",
        "RTX PRO 6000",
    }


@SKUS
def test_every_figure_has_a_source(entry: GpuEntry) -> None:
    """A figure without a source is refused, and so is a source without a figure."""
    figures = {field.name for field in fields(entry)} - DESCRIPTIVE
    given = {name for name in figures if getattr(entry, name)}

    assert set(entry.sources) == given
    assert all(len(source) > 20 for source in entry.sources.values())


@SKUS
def test_figures_are_plausible(entry: GpuEntry) -> None:
    """A process can allocate less than NVML's total but over nine tenths of it; wider formats are
    never faster. The slowest module reads 34 GB/s.
    """
    flops = entry.peak_flops

    assert 0.9 * entry.capacity_bytes < entry.usable_bytes <= entry.capacity_bytes
    assert entry.capacity_bytes % MIB == 0
    least = 3 * 10**10 if entry.form == "module" else 9 * 10**10
    assert least < entry.bandwidth_bytes_per_second < 10**13
    by_width = [flops[name] for name in ("fp32", "tf32", "bf16", "fp8") if name in flops]
    assert by_width == sorted(by_width)
    assert {"fp16", "bf16"} & flops.keys()
    assert flops.get("fp16", flops.get("bf16")) == flops.get("bf16", flops.get("fp16"))
    assert entry.link_bytes_per_second >= entry.pcie_bytes_per_second


@SKUS
def test_mig_slices_fit_into_the_gpu(entry: GpuEntry) -> None:
    """As many slices as a profile allows take at most the eight eighths of the memory."""
    assert all(
        profile.max_instances * profile.memory_eighths <= 8 for profile in entry.mig_profiles
    )
    assert len({profile.name for profile in entry.mig_profiles}) == len(entry.mig_profiles)


@pytest.mark.parametrize(
    ("gpu", "profile", "shown_gib", "share"),
    [
        ("A30", "1g.6gb", 5.75, 1 / 4),
        ("A30", "4g.24gb", 23.37, 1),
        ("RTX-PRO-6000-Server", "2g.48gb", 46.5, 1 / 2),
        ("H100-NVL-94GB", "1g.12gb", 10.62, 16 / 132),
        ("H100-NVL-94GB", "7g.94gb", 92.62, 1),
        ("B300-SXM6-270GB", "1g.34gb", 33.75, 1 / 7),
        ("H200-SXM5-141GB", "1g.18gb", 16.0, 16 / 132),
        ("H200-SXM5-141GB", "2g.35gb", 32.25, 32 / 132),
        ("H200-SXM5-141GB", "3g.71gb", 69.5, 60 / 132),
        ("B200-SXM6-180GB", "1g.23gb", 20.5, 18 / 148),
        ("B200-SXM6-180GB", "2g.45gb", 44.25, 2 / 7),
        ("GB200-186GB", "1g.23gb", 20.0, 18 / 148),
        ("GB200-186GB", "1g.47gb", 45.5, 1 / 7),
        ("A100-SXM4-40GB", "1g.5gb", 4.75, 14 / 108),
        ("A100-SXM4-40GB", "7g.40gb", 39.25, 98 / 108),
    ],
)
def test_a_slice_has_no_more_than_the_driver_shows(
    gpu: str, profile: str, shown_gib: float, share: float
) -> None:
    """``nvidia-smi mig -lgip`` of public logs bounds the memory, and the profile says its part of
    the multiprocessors.
    """
    entry = resolve_gpu(gpu)

    found = entry.get_slice(profile)

    assert found is not None
    assert 0.9 * shown_gib * GIB < found.usable_bytes <= shown_gib * GIB
    assert found.peak_flops["bf16"] == pytest.approx(entry.peak_flops["bf16"] * share)


@SKUS
def test_device_carries_the_figures(entry: GpuEntry) -> None:
    """The estimator's device has the catalogue's numbers."""
    device = entry.to_device()

    assert (device.name, device.capacity_bytes, device.usable_bytes) == (
        entry.name,
        entry.capacity_bytes,
        entry.usable_bytes,
    )
    assert device.link_bytes_per_second == entry.link_bytes_per_second


def test_a100_80gb_is_what_public_logs_say() -> None:
    """NVML says 81920 MiB, PyTorch 79.15 GiB."""
    entry = resolve_gpu("A100-SXM4-80GB")

    assert entry.capacity_bytes == 80 * GIB
    assert round(entry.usable_bytes / GIB, 2) == 79.15


@SKUS
def test_processors_are_those_of_the_card(entry: GpuEntry) -> None:
    """A laptop's chip is not the desktop's of its name: RTX 4090 has 128 processors, in a laptop
    76. A slice never has more than its GPU.
    """
    properties = find_gpu_properties(entry.name)

    if entry.vendor == "nvidia" and entry.name != "L2":
        assert properties is not None
        assert all(
            (profile.multiprocessors or 0) <= properties.num_processors
            for profile in entry.mig_profiles
        )
    laptop, desktop = (find_gpu_properties(name) for name in ("RTX-4090-Laptop", "RTX-4090"))
    assert laptop is not None
    assert desktop is not None
    assert (laptop.num_processors, desktop.num_processors) == (76, 128)


@pytest.mark.parametrize(
    ("name", "named", "others"),
    [
        ("hopper", "H100, H800, H200", "list them"),
        ("NVIDIA Ada-Lovelace", "L4", "for workstations"),
        ("cdna3", "MI300X, MI325X", "GET /v1/gpus"),
        ("Pascal", "P100, P4, P40;", "GET /v1/gpus"),
    ],
)
def test_a_generation_is_told_its_gpus(name: str, named: str, others: str) -> None:
    """It is no GPU, and what it has can be asked about."""
    with pytest.raises(UnknownGpuError) as refused:
        resolve_gpu(name)

    assert "is a generation of GPUs" in refused.value.detail
    assert named in refused.value.detail
    assert others in refused.value.detail
