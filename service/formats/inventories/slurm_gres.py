"""Slurm's generic resources as text: ``gpu:nvidia_a100-sxm4-80gb:8(S:0-1)``."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.formats.inventories.observed import (
    MAX_GPUS,
    InventoryFormatError,
    ObservedGpus,
    ObservedSlices,
    ObservedUse,
)

MAX_TYPES = 64
MAX_TEXT = 16_384
_ENTRY = re.compile(
    r"(?:gres[/:])?(?P<kind>gpu|shard)(?::(?P<type>[^:,=()]{1,120}?))??(?::no_consume)?"
    r"(?:[:=](?P<count>[0-9]{1,9}))?(?:\((?P<detail>[^()]{0,4096})\))?",
    re.ASCII,
)
_PART = re.compile(r"(?:\([^)]*+\)?+|[^,(]++)++")
"""What is between commas outside of parentheses."""
_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)
_SLICE = re.compile(
    r"(?:(?P<gpu>.+?)[_-])?(?:mig[_-])?(?P<profile>[0-9]g\.[0-9]{1,3}gb)(?:[.+-].{1,10})?",
    re.ASCII | re.IGNORECASE,
)
"""NVML's autodetection names a slice ``<device>_<profile>`` (src/plugins/gpu/nvml/gpu_nvml.c)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gres:
    """GPUs of one type; ``kind`` is ``gpu`` or ``shard``.

    ``indices`` are those of all GPUs of the node, None where Slurm does not show them.
    """

    kind: str
    type: str
    count: int
    indices: tuple[int, ...] | None = None
    detail: str = ""


def read_gres(text: str) -> tuple[Gres, ...]:
    """Return the GPUs and shards of a text, others left out."""
    if len(text) > MAX_TEXT:
        message = f"has {len(text):,} characters of gres on one node"
        raise InventoryFormatError(message)
    return tuple(_iter_gres(text))


def build_gpus(
    gres: Sequence[Gres], used: Sequence[Gres], uses: Sequence[tuple[str, Gres]]
) -> tuple[ObservedGpus, ...]:
    """Return a node's GPUs by type, with what is used of them.

    ``uses`` are the jobs with what each has; what they do not explain has no holder.
    """
    types = dict.fromkeys(entry.type for entry in gres if entry.kind == "gpu")
    if len(types) > MAX_TYPES:
        message = f"has {len(types)} types of GPUs on one node, and none has more than {MAX_TYPES}"
        raise InventoryFormatError(message)
    models: dict[str, list[str]] = {}
    for name in types:
        models.setdefault(split_slice(name)[0], []).append(name)
    shows_indices = len(types) == 1
    return tuple(
        _build_model(model, names, gres, (used, uses), shows_indices=shows_indices)
        for model, names in models.items()
    )


def _build_model(
    model: str,
    names: Sequence[str],
    gres: Sequence[Gres],
    in_use: tuple[Sequence[Gres], Sequence[tuple[str, Gres]]],
    *,
    shows_indices: bool,
) -> ObservedGpus:
    used, uses = in_use
    whole_types = [name for name in names if split_slice(name)[1] is None]
    count = sum(_count(gres, name) for name in whole_types)
    if count > MAX_GPUS:
        message = f"has {count:,} GPUs on one node, and none has more than {MAX_GPUS}"
        raise InventoryFormatError(message)
    slices = tuple(
        ObservedSlices(
            profile=profile,
            total=_count(gres, name),
            used=min(_count(used, name), _count(gres, name)),
        )
        for name in names
        if (profile := split_slice(name)[1]) is not None and _count(gres, name)
    )
    return ObservedGpus(
        name=model,
        count=count,
        used=_list_uses(whole_types, count, used, uses, shows_indices=shows_indices),
        slices=slices,
        mig_gpus=None if slices else 0,
    )


def _list_uses(
    types: Sequence[str],
    count: int,
    used: Sequence[Gres],
    uses: Sequence[tuple[str, Gres]],
    *,
    shows_indices: bool,
) -> tuple[ObservedUse, ...]:
    """Return who uses GPUs, nobody by name where none is known."""
    entries = [entry for entry in used if entry.kind == "gpu" and entry.type in types]
    total = min(sum(entry.count for entry in entries) + _count_sharded(used, types), count)
    by_holder = [
        ObservedUse(
            holder=holder,
            num_gpus=entry.count,
            gpu_indices=entry.indices if shows_indices else None,
        )
        for holder, entry in uses
        if entry.kind == "gpu" and entry.count and (entry.type in types or not entry.type)
    ]
    if by_holder and sum(use.num_gpus for use in by_holder) <= total:
        unexplained = total - sum(use.num_gpus for use in by_holder)
        return (*by_holder, *(_name_nobody(unexplained, None) if unexplained else ()))
    indices = tuple(index for entry in entries for index in entry.indices or ())
    has_all = shows_indices and len(indices) == total
    return _name_nobody(total, indices if has_all else None) if total else ()


def _name_nobody(num_gpus: int, indices: tuple[int, ...] | None) -> tuple[ObservedUse]:
    return (ObservedUse(holder="slurm", num_gpus=num_gpus, gpu_indices=indices),)


def _count(entries: Sequence[Gres], name: str) -> int:
    return sum(entry.count for entry in entries if entry.kind == "gpu" and entry.type == name)


def _count_sharded(used: Sequence[Gres], types: Sequence[str]) -> int:
    """Return the number of GPUs with shards in use."""
    return sum(
        sum(not part.strip().startswith("0/") for part in entry.detail.split(",") if "/" in part)
        for entry in used
        if entry.kind == "shard" and (not entry.type or entry.type in types)
    )


def split_slice(name: str) -> tuple[str, str | None]:
    """Return the GPU of a name, and its MIG profile.

    The GPU is empty where a slice does not say it, the profile ``None`` for a whole GPU.
    """
    match = _SLICE.fullmatch(name)
    return (name, None) if match is None else (match["gpu"] or "", match["profile"].casefold())


def _iter_gres(text: str) -> Iterator[Gres]:
    for part in _PART.findall(text):
        match = _ENTRY.fullmatch(part.strip())
        if match is None:
            continue
        detail = match["detail"] or ""
        count = 1 if match["count"] is None else int(match["count"])
        yield Gres(
            kind=match["kind"],
            type=match["type"] or "",
            count=count,
            indices=_read_indices(detail.removeprefix("IDX:"), count)
            if detail.startswith("IDX:")
            else None,
            detail=detail,
        )


def _read_indices(text: str, count: int) -> tuple[int, ...] | None:
    indices: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return None
        low, high = int(match[1]), int(match[2] or match[1])
        if not low <= high < low + MAX_GPUS:
            return None
        indices += range(low, high + 1)
    return tuple(indices) if len(set(indices)) == count else None
