"""GPUs as tools spell them, named by the catalogue."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from service.catalog.gpu_entries import EIGHTHS, GpuEntry, MigProfile
from service.catalog.gpus import find_driver_name, find_gpus, list_gpus, resolve_gpu
from service.estimator.values.units import MIB, ceil_div
from service.formats.inventories.observed import ObservedGpus, ObservedSlices
from service.planner.cluster.inventory import MigSlices

TOLERANCE = 16
"""A sixteenth: ECC and the driver keep as much of what is sold, and no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGpu:
    """A GPU of the catalogue, or an unknown one.

    ``memory_bytes`` is what can be allocated on an unknown one, 0 where nobody knows it.
    """

    name: str
    memory_bytes: int | None = None

    @property
    def entry(self) -> GpuEntry | None:
        """The catalogue's entry, None where it has none."""
        return resolve_gpu(self.name) if self.memory_bytes is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CutGpus:
    """GPUs that MIG has cut, and their slices.

    ``unknown`` are slices of sizes that no profile has.
    """

    num_gpus: int
    slices: tuple[MigSlices, ...]
    unknown: tuple[str, ...] = ()


def name_gpu(gpus: ObservedGpus, aliases: Mapping[str, NamedGpu]) -> NamedGpu:
    """Return the GPU that a tool's name means.

    What the sender says of the name holds first, then what the driver's memory and the slices leave
    of the names in the catalogue. A GPU with less memory than the catalogue has is another one.
    """
    alias = aliases.get(gpus.name.casefold())
    if alias is not None:
        return alias
    name = find_driver_name(gpus.name, gpus.memory_bytes) or _find_by_slices(gpus)
    if name is None:
        return NamedGpu(name=_clean(gpus.name), memory_bytes=_estimate_usable(gpus))
    capacity = resolve_gpu(name).capacity_bytes
    if gpus.memory_bytes is not None and gpus.memory_bytes < capacity - capacity // TOLERANCE:
        label = f"{_clean(gpus.name)[:60]} {gpus.memory_bytes // MIB} MiB"
        return NamedGpu(name=label, memory_bytes=_estimate_usable(gpus))
    return NamedGpu(name=name)


def cut_gpus(gpus: ObservedGpus, entry: GpuEntry | None) -> CutGpus:
    """Return a node's cut GPUs and their slices.

    Where a tool shows the slices alone, they are as few GPUs as can have them.
    """
    if entry is None:
        return CutGpus(
            num_gpus=gpus.mig_gpus if gpus.mig_gpus is not None else min(len(gpus.slices), 1),
            slices=(),
            unknown=tuple(_describe(part) for part in gpus.slices),
        )
    totals: dict[str, list[int]] = {}
    unknown = []
    for part in gpus.slices:
        profile = _find_profile(part, entry)
        if profile is None:
            unknown.append(_describe(part))
        else:
            sums = totals.setdefault(profile.name, [0, 0])
            sums[0] += part.total
            sums[1] += part.used
    profiles = {profile.name: profile for profile in entry.mig_profiles}
    fewest = _count_fewest({profiles[name]: total for name, (total, _) in totals.items()})
    return CutGpus(
        num_gpus=max(gpus.mig_gpus or 0, fewest, min(len(unknown), 1)),
        slices=tuple(
            MigSlices(profile=name, total=total, allocated=used)
            for name, (total, used) in totals.items()
        ),
        unknown=tuple(unknown),
    )


def list_possible_names(gpus: ObservedGpus) -> tuple[str, ...]:
    """Return the GPUs of the catalogue that an ambiguous name may mean."""
    return tuple(entry.name for entry in find_gpus(gpus.name))


def _find_by_slices(gpus: ObservedGpus) -> str | None:
    """Return the one GPU of a name with all the profiles."""
    profiles = {part.profile for part in gpus.slices if part.profile}
    if not profiles:
        return None
    names = [
        entry.name
        for entry in find_gpus(gpus.name)
        if profiles <= {profile.name for profile in entry.mig_profiles}
    ]
    return names[0] if len(names) == 1 else None


def _find_profile(part: ObservedSlices, entry: GpuEntry) -> MigProfile | None:
    """Return the profile of a slice, by name or size."""
    if part.profile:
        named = part.profile.casefold()
        return next((profile for profile in entry.mig_profiles if profile.name == named), None)
    if part.memory_bytes is None:
        return None
    tolerance = entry.capacity_bytes // EIGHTHS // 4
    near = [
        profile
        for profile in entry.mig_profiles
        if abs(entry.slice_usable_bytes(profile) - part.memory_bytes) <= tolerance
        and part.multiprocessors in {None, profile.multiprocessors or part.multiprocessors}
    ]
    return near[0] if len(near) == 1 else None


def _count_fewest(totals: Mapping[MigProfile, int]) -> int:
    by_profile = (ceil_div(total, profile.max_instances) for profile, total in totals.items())
    eighths = sum(total * profile.memory_eighths for profile, total in totals.items())
    return max(ceil_div(eighths, EIGHTHS), *by_profile, 0)


def _describe(part: ObservedSlices) -> str:
    size = f"{(part.memory_bytes or 0) // MIB} MiB"
    return f"{part.total} slices {part.profile or size}"


def _estimate_usable(gpus: ObservedGpus) -> int:
    """Return what a process can allocate: the driver's total less its reserve.

    Where a tool does not say how much that is, the largest share of any card in the catalogue.
    """
    if gpus.memory_bytes is None:
        return 0
    if gpus.reserved_bytes is not None and gpus.reserved_bytes < gpus.memory_bytes:
        return gpus.memory_bytes - gpus.reserved_bytes
    withheld, capacity = _find_largest_reserve()
    return gpus.memory_bytes - ceil_div(gpus.memory_bytes * withheld, capacity)


@cache
def _find_largest_reserve() -> tuple[int, int]:
    """Return reserve and total of the card with the largest share."""
    cards = (entry for entry in list_gpus() if not entry.has_unified_memory)
    card = max(cards, key=lambda entry: 1 - entry.usable_bytes / entry.capacity_bytes)
    return card.capacity_bytes - card.usable_bytes, card.capacity_bytes


def _clean(text: str) -> str:
    return to_printable(text, longest=80) or "unknown"


def to_printable(text: str, *, longest: int) -> str:
    """Return a text's printable ASCII, as names of the contract have it."""
    return "".join(_iter_printable(text)).strip()[:longest].strip()


def _iter_printable(text: Iterable[str]) -> Iterable[str]:
    return (letter if " " <= letter <= "~" else "?" for letter in text)
