"""Entries of the GPU catalogue, with their MIG slices."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.estimator.memory.overheads.gpu_properties import find_gpu_properties
from service.estimator.values.device import Device, format_slice
from service.estimator.values.units import MIB

EIGHTHS = 8
SLICE_RESERVED_BYTES = 410 * MIB
"""By how much slices fall short of their eighths where no log shows more (``nvidia-smi mig
-lgip``): an A100-80GB's ``1g.10gb`` has 9.50 GiB of 9.89, its ``7g.80gb`` 78.75 of 79.15; an H100's
``1g.10gb`` 9.75 of 9.89, an A100-40GB's ``1g.5gb`` 4.75 of 4.92.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """A MIG profile of a GPU.

    ``max_instances`` of it fit on one GPU, and each takes ``memory_eighths`` of its memory.

    ``usable_bytes`` is what ``nvidia-smi mig -lgip`` shows, where that falls shorter of the eighths
    than on other GPUs.
    """

    name: str
    max_instances: int
    memory_eighths: int
    usable_bytes: int | None = None
    multiprocessors: int | None = None
    """Of one slice, as ``nvidia-smi mig -lgip`` lists them; None where no list was read."""

    @property
    def compute_slices(self) -> int:
        """Parts of the multiprocessors that a slice has: the 3 of ``3g.40gb``."""
        return int(self.name[: self.name.index("g")])


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEntry:
    """One GPU SKU of the catalogue.

    ``capacity_bytes`` is NVML's total, ``usable_bytes`` what cudaMemGetInfo calls total.

    FLOP/s are dense. Link rates count both directions together, as vendors do; NVLink stands for
    any GPU-to-GPU fabric. Where logs of several drivers differ, ``usable_bytes`` is the smallest:
    an answer must hold under each of them.
    """

    name: str
    vendor: str
    family: str
    form: str
    """What it is built into: ``server``, ``workstation``, ``desktop``, ``laptop`` or ``module``."""
    aliases: Mapping[str, tuple[str, ...]]
    capacity_bytes: int
    usable_bytes: int
    bandwidth_bytes_per_second: int
    peak_flops: Mapping[str, int]
    nvlink_bytes_per_second: int | None
    pcie_bytes_per_second: int
    mig_profiles: tuple[MigProfile, ...]
    sources: Mapping[str, str]
    compute_capability: str | None = None
    """Of NVIDIA's GPUs: what their kernels can use."""
    gfx_target: str | None = None
    """Of AMD's GPUs: what their kernels are compiled for."""
    has_unified_memory: bool = False
    """Whether the CPU has no other memory than this."""

    @property
    def link_bytes_per_second(self) -> int:
        """Bytes per second to another GPU of the same node.

        Over NVLink where there is one, else over PCIe.
        """
        return self.nvlink_bytes_per_second or self.pcie_bytes_per_second

    @property
    def compute_slices(self) -> int:
        """Parts into which MIG cuts the multiprocessors.

        They are as many as the largest profile has.
        """
        return max(profile.compute_slices for profile in self.mig_profiles)

    def list_names(self) -> frozenset[str]:
        """Return all names of this SKU, shared aliases included."""
        return frozenset(
            {self.name, self.family, *(alias for group in self.aliases.values() for alias in group)}
        )

    def to_device(self) -> Device:
        """Return the GPU as a device of the estimator."""
        return Device(
            name=self.name,
            vendor=self.vendor,
            capacity_bytes=self.capacity_bytes,
            usable_bytes=self.usable_bytes,
            bandwidth_bytes_per_second=self.bandwidth_bytes_per_second,
            peak_flops=self.peak_flops,
            link_bytes_per_second=self.link_bytes_per_second,
            compute_capability=self.compute_capability,
            gfx_target=self.gfx_target,
            has_unified_memory=self.has_unified_memory,
        )

    def slice_usable_bytes(self, profile: MigProfile) -> int:
        """Return the bytes that a process in a slice can allocate.

        They are those of a log of such a slice, or its eighths less what is reserved.
        """
        return (
            profile.usable_bytes
            or self.usable_bytes * profile.memory_eighths // EIGHTHS - SLICE_RESERVED_BYTES
        )

    def get_slice(self, profile: str) -> Device | None:
        """Return a MIG slice as a device, or None if unknown.

        It has its eighths of the memory and of its bandwidth, the multiprocessors that the driver
        lists, else its part of them (NVIDIA MIG User Guide, "Supported MIG Profiles": ``3g.40gb``
        has 4/8 and 3/7, an A30's ``2g.12gb`` 2/4), and nothing to reach others with.
        """
        mig_profile = next(
            (candidate for candidate in self.mig_profiles if candidate.name == profile.casefold()),
            None,
        )
        if mig_profile is None:
            return None
        part, total = self._get_processor_share(mig_profile)
        return Device(
            name=format_slice(self.name, mig_profile.name),
            vendor=self.vendor,
            capacity_bytes=self.capacity_bytes * mig_profile.memory_eighths // EIGHTHS,
            usable_bytes=self.slice_usable_bytes(mig_profile),
            bandwidth_bytes_per_second=self.bandwidth_bytes_per_second
            * mig_profile.memory_eighths
            // EIGHTHS,
            peak_flops={dtype: flops * part // total for dtype, flops in self.peak_flops.items()},
            mig_profile=mig_profile.name,
            compute_capability=self.compute_capability,
            num_processors=mig_profile.multiprocessors,
        )

    def _get_processor_share(self, profile: MigProfile) -> tuple[int, int]:
        """Return the processors of a slice and of the whole GPU."""
        properties = find_gpu_properties(self.name)
        if profile.multiprocessors is None or properties is None:
            return profile.compute_slices, self.compute_slices
        return profile.multiprocessors, properties.num_processors
