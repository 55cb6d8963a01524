"""Which GPUs a process may use: ``CUDA_VISIBLE_DEVICES`` and ``--gpus``, in CUDA's words. Pure.

CUDA numbers GPUs by its own guess at their speed unless ``CUDA_DEVICE_ORDER`` is ``PCI_BUS_ID``; NVML by the PCI bus. Where
all are alike the two agree; where they are not, a number means two things and is refused. (CUDA Programming Guide, 5.2.1.)
"""

from collections.abc import Mapping, Sequence

from worker.nvml.gpus import Gpu

ALL = "all"
_BUS_ORDER = "PCI_BUS_ID"


class UnknownGpuError(ValueError):
    """A name or number that stands for no GPU here, or for more than one."""


def visible_gpus(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return what a process with this environment can be given; raises UnknownGpuError for a name that fits nothing."""
    usable = _usable(gpus)
    said = environ.get("CUDA_VISIBLE_DEVICES")
    if said is None:
        return usable
    words = [word.strip() for word in said.split(",") if word.strip()]
    # CUDA ends its list at the first negative number: -1 is how people hide every GPU.
    shown = words[: next((place for place, word in enumerate(words) if word.startswith("-")), len(words))]
    whose = "CUDA_VISIBLE_DEVICES"
    _refuse_ambiguous_numbers(shown, gpus, environ, whose=whose)
    return _each_once([_find(word, gpus, numbered=_numbered(gpus), whose=whose) for word in shown], whose)


def chosen_gpus(said: str, gpus: Sequence[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return the GPUs that ``--gpus`` names among the visible ones: ``all``, numbers of these, UUIDs or beginnings of UUIDs."""
    visible = visible_gpus(gpus, environ)
    if not visible:
        message = "no GPU is visible here; see nvidia-smi -L, and CUDA_VISIBLE_DEVICES if it is set"
        raise UnknownGpuError(message)
    if said.strip() == ALL:
        return visible
    words = [word.strip() for word in said.split(",") if word.strip()]
    if not words:
        message = "--gpus names no GPU; say all, numbers as in 0,1, or UUIDs as nvidia-smi -L prints them"
        raise UnknownGpuError(message)
    # Like a program that CUDA shows a part of the machine, the numbers count what is visible.
    numbered = dict(enumerate(visible))
    return _each_once([_find(word, visible, numbered=numbered, whose="--gpus") for word in words], "--gpus")


def _usable(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Leave out GPUs that MIG divides: CUDA can use their instances only."""
    return tuple(gpu for gpu in gpus if not gpu.is_divided)


def _numbered(gpus: Sequence[Gpu]) -> dict[int, Gpu]:
    return {gpu.index: gpu for gpu in gpus if gpu.parent_uuid is None}


def _find(word: str, gpus: Sequence[Gpu], *, numbered: Mapping[int, Gpu], whose: str) -> Gpu:
    if word.isdecimal():
        found = [numbered[int(word)]] if int(word) in numbered else []
    else:
        found = [gpu for gpu in gpus if _is_called(gpu, word)]
    if len(found) != 1:
        raise UnknownGpuError(_unknown(word, found, gpus, whose))
    if found[0].is_divided:
        raise UnknownGpuError(_divided(found[0], gpus, whose))
    return found[0]


def _is_called(gpu: Gpu, word: str) -> bool:
    return gpu.uuid.startswith(word) or gpu.legacy_name == word


def _each_once(found: Sequence[Gpu], whose: str) -> tuple[Gpu, ...]:
    for place, gpu in enumerate(found):
        if gpu in found[:place]:
            message = f"{whose} names {gpu.uuid} twice; one worker at a time measures on a GPU"
            raise UnknownGpuError(message)
    return tuple(found)


def _refuse_ambiguous_numbers(words: Sequence[str], gpus: Sequence[Gpu], environ: Mapping[str, str], *, whose: str) -> None:
    kinds = {gpu.name for gpu in gpus if gpu.parent_uuid is None}
    numbers = [word for word in words if word.isdecimal()]
    if numbers and len(kinds) > 1 and environ.get("CUDA_DEVICE_ORDER") != _BUS_ORDER:
        message = (
            f"{whose} says {', '.join(numbers)}, and the GPUs here differ ({', '.join(sorted(kinds))}): CUDA numbers them by "
            f"speed and NVML by the bus; set CUDA_DEVICE_ORDER={_BUS_ORDER}, or name UUIDs"
        )
        raise UnknownGpuError(message)


def _unknown(word: str, found: Sequence[Gpu], gpus: Sequence[Gpu], whose: str) -> str:
    if found:
        return f"{whose} says {word!r}, which {', '.join(gpu.uuid for gpu in found)} begin with; write one of them out"
    there = ", ".join(gpu.uuid for gpu in _usable(gpus)) or "none"
    return f"{whose} says {word!r}, which is no GPU here; there are: {there}"


def _divided(gpu: Gpu, gpus: Sequence[Gpu], whose: str) -> str:
    instances = ", ".join(one.uuid for one in gpus if one.parent_uuid == gpu.uuid) or "it has none yet"
    return f"{whose} names {gpu.uuid}, which MIG divides: name one of its instances: {instances}"
