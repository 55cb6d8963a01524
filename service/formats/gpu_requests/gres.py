"""Slurm's generic resources as text: ``gpu:nvidia_a100-sxm4-80gb:8(S:0-1)``."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.values.errors import InvalidInputError

_MAX_INDICES = 1024
"""More than any node has."""
MAX_TEXT = 16_384
_ENTRY = re.compile(
    r"(?:gres[/:])?(?P<kind>gpu|shard)(?::(?P<type>[^:,=()]{1,120}?))??(?::no_consume)?"
    r"(?:[:=](?P<count>[0-9]{1,9}))?(?:\((?P<detail>[^()]{0,4096})\))?",
    re.ASCII,
)
_UNTYPED = ":(null)"
"""Type of what is used of GPUs that have none (src/interfaces/gres.c)."""
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
    """Return the GPUs and shards of a text, others left out.

    Raises InvalidInputError for a text that is longer than any node's.
    """
    if len(text) > MAX_TEXT:
        message = f"has {len(text):,} characters of gres on one node"
        raise InvalidInputError(message)
    return tuple(_iter_gres(text))


def split_slice(name: str) -> tuple[str, str | None]:
    """Return the GPU of a name, and its MIG profile.

    The GPU is empty where a slice does not say it, the profile ``None`` for a whole GPU.
    """
    match = _SLICE.fullmatch(name)
    return (name, None) if match is None else (match["gpu"] or "", match["profile"].casefold())


def _iter_gres(text: str) -> Iterator[Gres]:
    for part in _PART.findall(text):
        match = _ENTRY.fullmatch(part.strip().replace(_UNTYPED, ""))
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
        if not low <= high < low + _MAX_INDICES:
            return None
        indices += range(low, high + 1)
    return tuple(indices) if len(set(indices)) == count else None
