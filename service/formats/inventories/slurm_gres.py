"""GPUs of a node of Slurm, by its generic resources."""

from collections.abc import Sequence

from service.formats.gpu_requests.gres import MAX_TEXT, Gres, read_gres, split_slice
from service.formats.inventories.observed import (
    MAX_GPUS,
    InventoryFormatError,
    ObservedGpus,
    ObservedSlices,
    ObservedUse,
)

MAX_TYPES = 64


def read_node_gres(text: str) -> tuple[Gres, ...]:
    """Return a node's GPUs and shards."""
    if len(text) > MAX_TEXT:
        message = f"has {len(text):,} characters of gres on one node"
        raise InventoryFormatError(message)
    return read_gres(text)


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
    # What has no type is of the only one that there is.
    entries = [
        entry
        for entry in used
        if entry.kind == "gpu" and (entry.type in types or (shows_indices and not entry.type))
    ]
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
