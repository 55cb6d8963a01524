"""The GPU catalogue: complete, sourced, and found under the names that others use."""

from dataclasses import fields

import pytest

from service.base.errors import UnknownGpuError
from service.catalog.gpus import GpuEntry, find_gpus, list_gpus, resolve_gpu
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
SYSTEMS = ("nvml", "gfd", "dcgm", "amdsmi", "hlsmi")
"""Who names a device by its SKU; Ray and SkyPilot name families."""
DESCRIPTIVE = {"name", "vendor", "family", "aliases", "sources"}
SKUS = pytest.mark.parametrize("entry", list_gpus(), ids=lambda entry: entry.name)


def test_has_every_family_that_people_ask_about_first() -> None:
    """No family is missing and no name is used twice."""
    names = [entry.name for entry in list_gpus()]

    assert {entry.family for entry in list_gpus()} == ASKED_FIRST
    assert len(set(names)) == len(names)
    assert len(names) >= 44


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
    never faster.
    """
    flops = entry.peak_flops

    assert 0.9 * entry.capacity_bytes < entry.usable_bytes <= entry.capacity_bytes
    assert entry.capacity_bytes % MIB == 0
    assert 10**11 < entry.bandwidth_bytes_per_second < 10**13
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
        ("H100-NVL-94GB", "1g.12gb", 10.62, 1 / 7),
        ("H100-NVL-94GB", "7g.94gb", 92.62, 1),
        ("B300-SXM6-270GB", "1g.34gb", 33.75, 1 / 7),
        ("H200-SXM5-141GB", "1g.18gb", 16.0, 1 / 7),
        ("H200-SXM5-141GB", "2g.35gb", 32.25, 2 / 7),
        ("H200-SXM5-141GB", "3g.71gb", 69.5, 3 / 7),
        ("B200-SXM6-180GB", "1g.23gb", 20.5, 1 / 7),
        ("B200-SXM6-180GB", "2g.45gb", 44.25, 2 / 7),
        ("GB200-186GB", "1g.23gb", 20.0, 1 / 7),
        ("GB200-186GB", "1g.47gb", 45.5, 1 / 7),
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
def test_own_name_means_itself_alone(entry: GpuEntry) -> None:
    """The name that answers carry can always be sent back, in any spelling."""
    assert resolve_gpu(entry.name) is entry
    assert resolve_gpu(entry.name.lower().replace("-", "_")) is entry


@SKUS
def test_nvml_and_feature_discovery_names_are_unambiguous(entry: GpuEntry) -> None:
    """What a driver or a node label says means one SKU."""
    system_names = [name for system in SYSTEMS for name in entry.aliases.get(system, ())]

    assert system_names
    assert {resolve_gpu(name).name for name in system_names} == {entry.name}


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


def test_a_name_like_nothing_is_told_what_is_known() -> None:
    """Where nothing is near, the whole catalogue is named."""
    with pytest.raises(UnknownGpuError) as refused:
        resolve_gpu("abacus")

    assert all(entry.name in refused.value.detail for entry in list_gpus())
