"""States of LitGPT's code that differ in a step's tensors.

They are told apart by the date of a change, and by the first release that has it (the history of
Lightning-AI/litgpt, ``litgpt/model.py``, ``litgpt/lora.py`` and ``pyproject.toml``).
"""

import re
from dataclasses import dataclass
from enum import StrEnum

TARGETS = ("query", "key", "value", "projection", "mlp", "head")
"""Words for layers with an adapter (``lora_query``, …)."""
OLDEST = "2023-10-24"
"""The first day whose layers were read: norms have been in fp32 since then."""
_DATE = re.compile(r"20\d\d-\d\d(?:-\d\d)?")
_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_FIRST_RELEASE = (0, 3, 0)
_CAPS = ("2024-07-23", (0, 4, 6))
"""Day and release of gemma 2's layers (pull request 1545)."""
Release = tuple[int, int, int]


class Adapter(StrEnum):
    """Adapters of LitGPT's own scripts, by PEFT's place in a request."""

    V1 = "adapter"
    """a prompt that attention reads behind a gate (arXiv:2303.16199)"""
    V2 = "adapter_v2"
    """the same, with a scale and a shift of every linear layer and trained norms
    (arXiv:2304.15010)
    """


class NormCast(StrEnum):
    """When a root-mean-square norm in fp32 is cast back."""

    LATE = "late"
    """behind a 16-bit weight"""
    EARLY = "early"
    """before the weight, from 2024-02-23 on"""
    WEIGHTED = "weighted"
    """behind the weight, which is cast to fp32: since 2024-07-23"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LitGptCode:
    """State of LitGPT's code.

    The defaults are the newest that was read, 0.5.13.
    """

    norm: NormCast = NormCast.WEIGHTED
    masks_windows: bool = True
    """Whether layers with a sliding window make a mask of it: since 2024-07-23."""
    pads_in_place: bool = True
    """Whether an adapter of query, key and value is put into zeros as it lies: since 2024-05-06."""
    splits_by_kind: bool = True
    """Whether all queries come first in the fused projection, not those of each group: since
    2024-12-26.
    """
    adapter: Adapter | None = None
    """The script's own adapter, where it is one of these."""
    frees_packed_inputs: bool = True
    """Whether products with packed weights forget their input: bitsandbytes 0.43.3 and later, which
    LitGPT installs since 0.5.5. Before, it was an attribute of the graph's node.
    """


NEWEST = LitGptCode()


def find_code(version: str | None) -> LitGptCode:
    """Return the state of a release or a day.

    None is the newest.
    """
    if version is None:
        return NEWEST
    return LitGptCode(
        norm=_find_norm(version),
        masks_windows=_is_since(version, *_CAPS),
        pads_in_place=_is_since(version, "2024-05-06", (0, 3, 1)),
        splits_by_kind=_is_since(version, "2024-12-26", (0, 5, 5)),
        frees_packed_inputs=_is_since(version, "2025-01-08", (0, 5, 5)),
    )


def is_litgpt_version(version: str) -> bool:
    """Return whether a version is one that was read."""
    if _DATE.fullmatch(version):
        return version >= OLDEST
    match = _RELEASE.fullmatch(version)
    return match is not None and _parse_release(version) >= _FIRST_RELEASE


def _find_norm(version: str) -> NormCast:
    if _is_since(version, *_CAPS):
        return NormCast.WEIGHTED
    if _is_since(version, "2024-02-23", _FIRST_RELEASE):
        return NormCast.EARLY
    return NormCast.LATE


def _is_since(version: str, day: str, release: Release) -> bool:
    if _DATE.fullmatch(version):
        return version >= day
    return _parse_release(version) >= release


def _parse_release(version: str) -> Release:
    match = _RELEASE.fullmatch(version)
    if match is None:
        return _FIRST_RELEASE
    major, minor, patch = match.groups(default="0")
    return int(major), int(minor), int(patch)
