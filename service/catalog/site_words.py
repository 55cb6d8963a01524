"""Schedulers' words for GPUs: types, features, products.

``a100_80gb``, ``a100-80``, ``v100s``, or ``gpu80gb`` beside ``a100``: a site has its own.
"""

import re
from collections.abc import Iterable, Iterator

from service.catalog.gpu_entries import GpuEntry
from service.catalog.gpu_names import has_size
from service.catalog.gpus import find_gpus, list_gpus

_GKE = {
    "nvidia-tesla-p100": "P100-PCIE-16GB",
    "nvidia-tesla-v100": "V100-SXM2-16GB",
    "nvidia-tesla-a100": "A100-SXM4-40GB",
    "nvidia-a100-80gb": "A100-SXM4-80GB",
    **dict.fromkeys(("nvidia-h100-80gb", "nvidia-h100-mega-80gb"), "H100-SXM5-80GB"),
}
"""Google's names of accelerators that others share, by its machine types (Compute Engine's
documentation, GPU machine types: n1, a2-highgpu, a2-ultragpu, a3-highgpu and a3-megagpu).
"""
_SITE = re.compile(
    r"^(?:gpu|nvidia|node|partition)[-_:]+|(?<![-_:])[-_:]++(?:gpus?|nodes?|ib|long|short)$"
)
"""What sites put around a GPU's name."""
_SIZED = re.compile(
    r"(?P<name>[a-z]{1,12}[-_]?[0-9]{1,4}[a-z]{0,6})[-_]?(?P<size>[0-9]{2,3})g?i?b?"
)
_MEMORY = re.compile(
    r"(?:gpu|vram|mem|memory|gmem|ram)*[-_:]*(?P<size>[0-9]{2,3})gi?b?(?:[-_]?(?:gpu|vram|mem))?"
)


def find_site_gpus(features: Iterable[tuple[str, ...]], profile: str | None) -> tuple[str, ...]:
    """Return the SKUs that a job's features may all mean.

    With a profile they are slices. Each of ``features`` are alternatives, of which one holds; words
    that contradict each other leave what any of them means.
    """
    entries: dict[str, GpuEntry] | None = None
    sizes: set[int] = set()
    for alternatives in features:
        meant = {entry.name: entry for word in alternatives for entry in _find_entries(word)}
        sizes |= set(_iter_sizes(alternatives))
        if meant and entries is not None:
            shared = {name: entry for name, entry in entries.items() if name in meant}
            entries = shared or {**entries, **meant}
        elif meant:
            entries = meant
    matches = list((entries or {}).values())
    sized = [entry for entry in matches if any(has_size(entry, size) for size in sizes)]
    names = [entry.name for entry in sized or matches]
    if profile is None:
        return tuple(names)
    sliced = [entry for entry in sized or matches if entry.get_slice(profile) is not None]
    return tuple(f"{entry.name}/{profile}" for entry in sliced)


def _find_entries(word: str) -> tuple[GpuEntry, ...]:
    """Return the SKUs that one word may mean."""
    text = word.casefold().strip()
    text = _GKE.get(text, text)
    for spelling in dict.fromkeys((text, _SITE.sub("", _SITE.sub("", text)))):
        if entries := find_gpus(spelling):
            return entries
        sized = _SIZED.fullmatch(spelling)
        if sized is not None and (entries := find_gpus(f"{sized['name']}-{sized['size']}gb")):
            return entries
        if any(letter.isdecimal() for letter in spelling) and (heads := _list_heads(spelling)):
            return heads
    return ()


def _list_heads(spelling: str) -> tuple[GpuEntry, ...]:
    """Return the SKUs whose names begin with a word, such as V100S."""
    return tuple(
        entry for entry in list_gpus() if entry.name.casefold().partition("-")[0] == spelling
    )


def _iter_sizes(alternatives: tuple[str, ...]) -> Iterator[int]:
    for word in alternatives:
        match = _MEMORY.fullmatch(word.casefold().strip())
        if match is not None:
            yield int(match["size"])
