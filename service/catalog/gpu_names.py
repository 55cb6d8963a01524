"""Spellings of GPU names by systems and by people.

``4090``, ``rtx 4090``, ``RTX4090 24GB`` and ``NVIDIA GeForce RTX 4090`` are one card.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from service.catalog.gpu_entries import GpuEntry
from service.estimator.values.units import GIB, ceil_div

_SIZE = re.compile(r"(?<![\s_(-])[\s_(-]++([0-9]{1,3})\s?(?:gib|gb|g)(?:\s?vram)?\b\)?")
_SILENT = re.compile(
    r"\b(?:nvidia|geforce|tesla|amd|instinct|intel|habana|gpus?|graphics|cards?|accelerator"
    r"|generation|edition|blackwell)\b"
)
_LAPTOP = re.compile(r"\b(?:laptop|mobile|notebook|max q)\b")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_TRUNCATED = "..."
_FORM = re.compile(r"(sxm)[0-9]$")
_NUMBERED = re.compile(r"rtx(?=[a-z0-9]*[0-9]{4})")
_MOST_TRUNCATED = 8
"""Of SKUs that a name without its end may mean: more say nothing."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """A name as one word, and its size."""

    word: str
    size_gb: int | None


def normalize_name(name: str) -> str:
    """Normalize the spelling of a system's GPU name.

    Slurm writes ``nvidia_a100-sxm4-80gb``, feature discovery ``NVIDIA-A100-SXM4-80GB``.
    """
    return name.casefold().replace("_", "-").replace(" ", "-")


def read_spelling(name: str) -> Spelling:
    """Return what a person's name of a GPU says."""
    text = name.casefold().replace("(r)", "").replace("(tm)", "")
    size = _SIZE.search(text)
    if size is not None:
        text = f"{text[: size.start()]} {text[size.end() :]}"
    spaced = _SEPARATORS.sub(" ", text)
    is_laptop = _LAPTOP.search(spaced) is not None
    bare = _LAPTOP.sub(" ", _SILENT.sub(" ", spaced))
    word = "".join(bare.split()) + ("laptop" if is_laptop else "")
    return Spelling(word, None if size is None else int(size[1]))


def iter_words(entry: GpuEntry) -> Iterator[str]:
    """Yield the words of a SKU, without sizes."""
    for name in entry.list_names():
        word = read_spelling(name).word
        yield word
        yield _FORM.sub(r"\1", word)
        shorter = _NUMBERED.sub("", word, count=1)
        yield shorter
        if "super" in shorter:
            yield shorter.replace("super", "s")
            yield word.replace("super", "s")


def has_size(entry: GpuEntry, size_gb: int) -> bool:
    """Return whether a SKU is sold as one of this many GB.

    A driver may show a sixteenth less, where ECC keeps as much: a T4 of 16 GB has 15 GiB.
    """
    shown = ceil_div(entry.capacity_bytes, GIB)
    kept = ceil_div(shown, 15)
    return size_gb == read_spelling(entry.name).size_gb or shown <= size_gb <= shown + kept


def iter_truncated(name: str, entries: tuple[GpuEntry, ...]) -> Iterator[GpuEntry]:
    """Yield the SKUs of a truncated name.

    ``nvidia-smi`` cuts names: ``NVIDIA RTX 6000 Ada Gene...``. Nothing where too many are left.
    """
    if not name.endswith(_TRUNCATED):
        return
    start = normalize_name(name.removesuffix(_TRUNCATED).rstrip())
    matches = [
        entry
        for entry in entries
        if any(normalize_name(alias).startswith(start) for alias in entry.list_names())
    ]
    if len(matches) <= _MOST_TRUNCATED:
        yield from matches
