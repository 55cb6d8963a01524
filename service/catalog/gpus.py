"""The GPU catalogue: memory, speed and links, each with its source.

It has the GPUs that people ask about first.
"""

import json
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from service.base.errors import UnknownGpuError
from service.catalog.foreign_gpus import BY_MEMORY, explain_foreign
from service.catalog.gpu_entries import GpuEntry, MigProfile
from service.catalog.gpu_generations import explain_generation
from service.catalog.gpu_names import (
    has_size,
    iter_truncated,
    iter_words,
    normalize_name,
    read_spelling,
)
from service.catalog.instance_names import find_instance_gpu
from service.catalog.older_gpus import explain_older
from service.estimator.values.device import Device, parse_slice
from service.estimator.values.units import GIB, format_bytes

_DATA = Path(__file__).with_name("gpus.json")
_BARE_SIZE = re.compile(r"([0-9]{1,4})\s?(?:g|gb|gi|gib)(?:\s?(?:gpu|card|vram))?", re.IGNORECASE)
_COUNTED = re.compile(r"(?P<number>[0-9]{1,4}) ?[x*] ?(?P<name>.+)", re.IGNORECASE)
"""A number of GPUs with their name: 2x RTX 5090."""


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
        message = _explain_profile(entry, parts[1])
        raise UnknownGpuError(message, errors=[{"field": field, "message": message}])
    return device


def find_driver_name(text: str, memory_bytes: int | None = None) -> str | None:
    """Return the catalogue's name of what a driver names.

    NVML says ``NVIDIA A100-SXM4-80GB MIG 1g.10gb``. Of cards that share a name ``memory_bytes``,
    NVML's total, tells them apart. None where the catalogue does not have it.
    """
    name, profile = parse_slice(text) or (text, None)
    entries = find_gpus(name)
    if len(entries) > 1 and memory_bytes is not None and profile is None:
        gib = round(memory_bytes / GIB)
        entries = tuple(entry for entry in entries if round(entry.capacity_bytes / GIB) == gib)
    if len(entries) != 1:
        return None
    device = entries[0].to_device() if profile is None else entries[0].get_slice(profile)
    return None if device is None else device.name


def find_gpus(name: str) -> tuple[GpuEntry, ...]:
    """Return every SKU that ``name`` may mean.

    Several for a family or a shared alias, none for an unknown name.
    """
    return _index_by_name().get(normalize_name(name)) or _find_spelled(name)


def _find_spelled(name: str) -> tuple[GpuEntry, ...]:
    """Return the SKUs of a name as people type it."""
    spelling = read_spelling(name)
    matches = _index_by_word().get(spelling.word, ())
    if spelling.size_gb is not None:
        matches = tuple(entry for entry in matches if has_size(entry, spelling.size_gb))
    return matches or tuple(iter_truncated(name.strip(), list_gpus()))


@cache
def _index_by_name() -> Mapping[str, tuple[GpuEntry, ...]]:
    index = _index(
        (normalize_name(name), entry) for entry in list_gpus() for name in entry.list_names()
    )
    # A SKU's own name is never ambiguous, whatever others call it.
    return index | {normalize_name(entry.name): (entry,) for entry in list_gpus()}


@cache
def _index_by_word() -> Mapping[str, tuple[GpuEntry, ...]]:
    return _index((word, entry) for entry in list_gpus() for word in set(iter_words(entry)))


def _index(pairs: Iterable[tuple[str, GpuEntry]]) -> dict[str, tuple[GpuEntry, ...]]:
    entries_by_name: dict[str, dict[str, GpuEntry]] = {}
    for name, entry in pairs:
        entries_by_name.setdefault(name, {})[entry.name] = entry
    return {name: tuple(entries.values()) for name, entries in entries_by_name.items()}


def _explain_ambiguous(name: str, candidates: tuple[GpuEntry, ...]) -> str:
    names = [f"{entry.name} ({format_bytes(entry.capacity_bytes)})" for entry in candidates]
    return (
        f"GPU {name!r} is ambiguous: say {' or '.join(names)}; `headroom how-many` and `headroom "
        "plan` answer for each."
    )


def _explain_profile(entry: GpuEntry, profile: str) -> str:
    if entry.mig_profiles:
        available = ", ".join(profile.name for profile in entry.mig_profiles)
        return f"{entry.name} has no MIG profile {profile!r}; it has: {available}."
    families = dict.fromkeys(gpu.family for gpu in list_gpus() if gpu.mig_profiles)
    return (
        f"{entry.name} has no MIG profile {profile!r}: it has none, for MIG does not cut it; it "
        f"cuts {', '.join(families)}."
    )


def _explain_unknown(name: str) -> str:
    other = explain_foreign(name) or explain_older(name) or explain_generation(name, list_gpus())
    if other is not None:
        return other
    rented = find_instance_gpu(name)
    if rented is not None:
        return f"{name!r} is a machine that is rented with its GPUs: say theirs, {rented}."
    size = _BARE_SIZE.fullmatch(name.strip())
    if size is not None:
        return f"{name!r} is a size and no name: {BY_MEMORY.format(size=f'{size[1]}Gi')}."
    counted = _COUNTED.fullmatch(name.strip())
    if counted is not None and (matches := find_gpus(counted["name"])):
        names, number = " or ".join(entry.name for entry in matches), counted["number"]
        return (
            f"GPU {name!r} is {number} of them: name one, {names}, and say how they share the job, "
            f"tensor_parallel {number} or data_parallel {number}."
        )
    spelling = read_spelling(name)
    sizes = _index_by_word().get(spelling.word, ())
    if sizes:
        names = " or ".join(entry.name for entry in sizes)
        return (
            f"GPU {name!r} is not in the catalogue: there is {names}, and none of "
            f"{spelling.size_gb} GB. {_offer_memory(spelling.size_gb)}"
        )
    return f"GPU {name!r} is not in the catalogue. {_suggest(name)} {_offer_memory()}"


def _suggest(name: str) -> str:
    near = get_close_matches(normalize_name(name), list(_index_by_name()), n=3, cutoff=0.7)
    nearest = dict.fromkeys(entry.name for match in near for entry in _index_by_name()[match])
    if nearest:
        return f"Did you mean {' or '.join(nearest)}?"
    servers = dict.fromkeys(entry.family for entry in list_gpus() if entry.form == "server")
    num_others = sum(entry.form != "server" for entry in list_gpus())
    return (
        f"Known: {', '.join(servers)}, and {num_others} GPUs of workstations, desktops, laptops "
        "and modules, which GET /v1/gpus lists."
    )


def _offer_memory(size_gb: int | None = None) -> str:
    offer = BY_MEMORY.format(size="12Gi" if size_gb is None else f"{size_gb}Gi")
    return f"Any GPU can be asked about without its name: {offer}."


def _parse_entry(raw: dict[str, Any]) -> GpuEntry:
    aliases = {system: tuple(names) for system, names in raw.pop("aliases").items()}
    profiles = tuple(MigProfile(**profile) for profile in raw.pop("mig_profiles"))
    return GpuEntry(aliases=aliases, mig_profiles=profiles, **raw)
