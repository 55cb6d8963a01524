"""The GPU catalogue: memory, speed and links, each with its source.

It has the GPUs that people ask about first.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from service.base.errors import UnknownGpuError
from service.estimator.values.device import Device, format_slice, parse_slice
from service.estimator.values.units import MIB

EIGHTHS = 8
SLICE_RESERVED_BYTES = 410 * MIB
"""By how much slices fall short of their eighths where no log shows more (``nvidia-smi mig
-lgip``): an A100-80GB's ``1g.10gb`` has 9.50 GiB of 9.89, its ``7g.80gb`` 78.75 of 79.15; an H100's
``1g.10gb`` 9.75 of 9.89, an A100-40GB's ``1g.5gb`` 4.75 of 4.92.
"""
_DRIVER_SLICE = " MIG "
_DATA = Path(__file__).with_name("gpus.json")


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

        It has its eighths of the memory and of its bandwidth, its part of the multiprocessors
        (NVIDIA MIG User Guide, "Supported MIG Profiles": ``3g.40gb`` has 4/8 and 3/7, an A30's
        ``2g.12gb`` 2/4), and nothing to reach others with.
        """
        mig_profile = next(
            (candidate for candidate in self.mig_profiles if candidate.name == profile.casefold()),
            None,
        )
        if mig_profile is None:
            return None
        return Device(
            name=format_slice(self.name, mig_profile.name),
            vendor=self.vendor,
            capacity_bytes=self.capacity_bytes * mig_profile.memory_eighths // EIGHTHS,
            usable_bytes=self.slice_usable_bytes(mig_profile),
            bandwidth_bytes_per_second=self.bandwidth_bytes_per_second
            * mig_profile.memory_eighths
            // EIGHTHS,
            peak_flops={
                dtype: flops * mig_profile.compute_slices // self.compute_slices
                for dtype, flops in self.peak_flops.items()
            },
            mig_profile=mig_profile.name,
            compute_capability=self.compute_capability,
        )


@cache
def list_gpus() -> tuple[GpuEntry, ...]:
    """Return the whole catalogue, oldest generation first."""
    return tuple(_parse_entry(raw) for raw in json.loads(_DATA.read_bytes()))


def resolve_gpu(name: str, *, field: str = "gpu") -> GpuEntry:
    """Return the one SKU that ``name`` means.

    Raises UnknownGpuError for a name that none or several have.
    """
    matches = find_gpus(name)
    if len(matches) == 1:
        return matches[0]
    message = _explain_ambiguous(name, matches) if matches else _explain_unknown(name)
    raise UnknownGpuError(message, errors=[{"field": field, "message": message}])


def resolve_device(name: str, *, field: str = "gpu") -> Device:
    """Return the GPU or MIG slice that ``name`` means.

    Raises UnknownGpuError for a name that none or several have.
    """
    parts = parse_slice(name)
    if parts is None:
        return resolve_gpu(name, field=field).to_device()
    entry = resolve_gpu(parts[0], field=field)
    device = entry.get_slice(parts[1])
    if device is None:
        available = ", ".join(profile.name for profile in entry.mig_profiles) or "none"
        message = f"{entry.name} has no MIG profile {parts[1]!r}; it has: {available}."
        raise UnknownGpuError(message, errors=[{"field": field, "message": message}])
    return device


def find_driver_name(text: str) -> str | None:
    """Return the catalogue's name of what a driver names.

    NVML says ``NVIDIA A100-SXM4-80GB MIG 1g.10gb``. None where the catalogue does not have it.
    """
    name, _, profile = text.partition(_DRIVER_SLICE)
    entries = find_gpus(name)
    if len(entries) != 1:
        return None
    device = entries[0].get_slice(profile) if profile else entries[0].to_device()
    return None if device is None else device.name


def find_gpus(name: str) -> tuple[GpuEntry, ...]:
    """Return every SKU that ``name`` may mean.

    Several for a family or a shared alias, none for an unknown name.
    """
    return _index_by_name().get(_normalize_name(name), ())


@cache
def _index_by_name() -> Mapping[str, tuple[GpuEntry, ...]]:
    entries_by_name: dict[str, tuple[GpuEntry, ...]] = {}
    for entry in list_gpus():
        for name in {_normalize_name(name) for name in entry.list_names()}:
            entries_by_name[name] = (*entries_by_name.get(name, ()), entry)
    # A SKU's own name is never ambiguous, whatever others call it.
    return entries_by_name | {_normalize_name(entry.name): (entry,) for entry in list_gpus()}


def _normalize_name(name: str) -> str:
    """Normalize the spelling of a GPU name.

    Slurm writes ``nvidia_a100-sxm4-80gb``, feature discovery ``NVIDIA-A100-SXM4-80GB``.
    """
    return name.casefold().replace("_", "-").replace(" ", "-")


def _explain_ambiguous(name: str, candidates: tuple[GpuEntry, ...]) -> str:
    return f"GPU {name!r} is ambiguous: say {' or '.join(entry.name for entry in candidates)}."


def _explain_unknown(name: str) -> str:
    near = get_close_matches(_normalize_name(name), list(_index_by_name()), n=3, cutoff=0.7)
    nearest = dict.fromkeys(entry.name for match in near for entry in _index_by_name()[match])
    hint = (
        f"Did you mean {' or '.join(nearest)}?"
        if nearest
        else f"Known: {', '.join(entry.name for entry in list_gpus())}."
    )
    return f"GPU {name!r} is not in the catalogue. {hint}"


def _parse_entry(raw: dict[str, Any]) -> GpuEntry:
    aliases = {system: tuple(names) for system, names in raw.pop("aliases").items()}
    profiles = tuple(MigProfile(**profile) for profile in raw.pop("mig_profiles"))
    return GpuEntry(aliases=aliases, mig_profiles=profiles, **raw)
