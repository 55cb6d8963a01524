"""Selection of GPUs by ``CUDA_VISIBLE_DEVICES`` and ``--gpus``. Pure.

Both follow CUDA's syntax. CUDA numbers GPUs by its own guess at their speed unless
``CUDA_DEVICE_ORDER`` is ``PCI_BUS_ID``; NVML numbers them by the PCI bus. Where all GPUs are alike
the two agree; where they are not, a number means two things and is refused. (CUDA Programming
Guide, 5.2.1.)
"""

from collections.abc import Mapping, Sequence

from worker.nvml.gpus import Gpu

ALL = "all"
_BUS_ORDER = "PCI_BUS_ID"


class UnknownGpuError(ValueError):
    """A name or number that matches no GPU, or more than one."""


def list_visible_gpus(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """List the GPUs that a process with this environment can use.

    Raises UnknownGpuError for a name that matches nothing.
    """
    usable = _exclude_divided(gpus)
    setting = environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        return usable
    names = [name.strip() for name in setting.split(",") if name.strip()]
    # CUDA ends its list at the first negative number: -1 is how people hide every GPU.
    visible_names = names[
        : next((place for place, name in enumerate(names) if name.startswith("-")), len(names))
    ]
    source = "CUDA_VISIBLE_DEVICES"
    _refuse_ambiguous_numbers(visible_names, gpus, environ, source=source)
    return _check_unique(
        [
            _find(name, gpus, by_number=_index_by_number(gpus), source=source)
            for name in visible_names
        ],
        source,
    )


def select_gpus(selection: str, gpus: Sequence[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return the GPUs that ``--gpus`` names among the visible ones.

    It names ``all``, numbers of visible GPUs, UUIDs or beginnings of UUIDs.
    """
    visible = list_visible_gpus(gpus, environ)
    if not visible:
        message = "no GPU is visible here; see nvidia-smi -L, and CUDA_VISIBLE_DEVICES if it is set"
        raise UnknownGpuError(message)
    if selection.strip() == ALL:
        return visible
    names = [name.strip() for name in selection.split(",") if name.strip()]
    if not names:
        message = (
            "--gpus names no GPU; say all, numbers as in 0,1, or UUIDs as nvidia-smi -L prints them"
        )
        raise UnknownGpuError(message)
    # Like a program that CUDA shows a part of the machine, the numbers count what is visible.
    by_number = dict(enumerate(visible))
    return _check_unique(
        [_find(name, visible, by_number=by_number, source="--gpus") for name in names], "--gpus"
    )


def _exclude_divided(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Leave out GPUs that MIG divides: CUDA can use their instances only."""
    return tuple(gpu for gpu in gpus if not gpu.is_divided)


def _index_by_number(gpus: Sequence[Gpu]) -> dict[int, Gpu]:
    return {gpu.index: gpu for gpu in gpus if gpu.parent_uuid is None}


def _find(name: str, gpus: Sequence[Gpu], *, by_number: Mapping[int, Gpu], source: str) -> Gpu:
    if name.isdecimal():
        matches = [by_number[int(name)]] if int(name) in by_number else []
    else:
        matches = [gpu for gpu in gpus if _has_name(gpu, name)]
    if len(matches) != 1:
        raise UnknownGpuError(_describe_unknown(name, matches, gpus, source))
    if matches[0].is_divided:
        raise UnknownGpuError(_describe_divided(matches[0], gpus, source))
    return matches[0]


def _has_name(gpu: Gpu, name: str) -> bool:
    return gpu.uuid.startswith(name) or gpu.legacy_name == name


def _check_unique(gpus: Sequence[Gpu], source: str) -> tuple[Gpu, ...]:
    for place, gpu in enumerate(gpus):
        if gpu in gpus[:place]:
            message = f"{source} names {gpu.uuid} twice; one worker at a time measures on a GPU"
            raise UnknownGpuError(message)
    return tuple(gpus)


def _refuse_ambiguous_numbers(
    names: Sequence[str], gpus: Sequence[Gpu], environ: Mapping[str, str], *, source: str
) -> None:
    kinds = {gpu.name for gpu in gpus if gpu.parent_uuid is None}
    numbers = [name for name in names if name.isdecimal()]
    if numbers and len(kinds) > 1 and environ.get("CUDA_DEVICE_ORDER") != _BUS_ORDER:
        message = (
            f"{source} says {', '.join(numbers)}, and the GPUs here differ "
            f"({', '.join(sorted(kinds))}): CUDA numbers them by speed and NVML by the bus; set "
            f"CUDA_DEVICE_ORDER={_BUS_ORDER}, or name UUIDs"
        )
        raise UnknownGpuError(message)


def _describe_unknown(name: str, matches: Sequence[Gpu], gpus: Sequence[Gpu], source: str) -> str:
    if matches:
        return (
            f"{source} says {name!r}, which {', '.join(gpu.uuid for gpu in matches)} begin with; "
            "write one of them out"
        )
    available = ", ".join(gpu.uuid for gpu in _exclude_divided(gpus)) or "none"
    return f"{source} says {name!r}, which is no GPU here; there are: {available}"


def _describe_divided(gpu: Gpu, gpus: Sequence[Gpu], source: str) -> str:
    instances = (
        ", ".join(instance.uuid for instance in gpus if instance.parent_uuid == gpu.uuid)
        or "it has none yet"
    )
    return f"{source} names {gpu.uuid}, which MIG divides: name one of its instances: {instances}"
