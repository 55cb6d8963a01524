"""Detection of a listing's tool, and its reading.

The tool is told by the content, or declared by the sender.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from service.formats.inventories.dcgm import METRIC, read_dcgm
from service.formats.inventories.documents import EXPECTED, Json, iter_sections, parse_documents
from service.formats.inventories.dstack import is_dstack, read_dstack
from service.formats.inventories.kubernetes import is_kubernetes, read_kubernetes
from service.formats.inventories.nvidia_smi_xml import read_nvidia_smi
from service.formats.inventories.observed import (
    InventoryFormat,
    InventoryFormatError,
    ObservedInventory,
)
from service.formats.inventories.ray import is_ray, read_ray
from service.formats.inventories.skypilot import is_skypilot, read_skypilot
from service.formats.inventories.slurm import read_slurm
from service.formats.inventories.slurm_text import START, parse_nodes

MAX_SECTIONS = 20_000
_HEAD = 4000
_LISTINGS = (
    ("| NVIDIA-SMI ", "`nvidia-smi`", "`nvidia-smi -q -x`, with the node's name"),
    ("NVSMI LOG", "`nvidia-smi -q`", "`nvidia-smi -q -x`, with the node's name"),
    ("GPU 0: ", "`nvidia-smi -L`", "`nvidia-smi -q -x`, with the node's name"),
    ("memory.total [MiB]", "`nvidia-smi --query-gpu`", "`nvidia-smi -q -x`, with the node's name"),
    ("NODELIST", "`sinfo`", "`scontrol show nodes --json`, or without --json where it has none"),
    ("Autoscaler status:", "`ray status`", "`ray list nodes --format json --detail`"),
    ("\nRoles: ", "`kubectl describe`", "`kubectl get nodes,pods -A -o json`"),
    ("STATUS   ROLES", "`kubectl get nodes`", "`kubectl get nodes,pods -A -o json`"),
)
"""Marks of what tools print for people, the tools, and what to send in its place."""
_TEXTS = frozenset({InventoryFormat.NVIDIA_SMI, InventoryFormat.DCGM})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions:
    """Facts that a file does not say.

    ``node`` is the host of a file of one node; taints with a key of ``tolerated`` keep no work
    away.
    """

    node: str | None = None
    tolerated: frozenset[str] = frozenset()


def read_inventory(
    contents: Sequence[object],
    *,
    declared: InventoryFormat | None = None,
    options: ReadingOptions | None = None,
) -> ObservedInventory:
    """Return the nodes of some contents of one tool and moment.

    A content is text or a JSON value. Raises InventoryFormatError, and nothing else, for what is no
    such listing.
    """
    settings = options or ReadingOptions()
    loaded = [_load(content, declared) for content in contents]
    texts = [part for part in loaded if isinstance(part, str)]
    sections = [
        section for part in loaded if not isinstance(part, str) for section in iter_sections(part)
    ]
    if len(sections) > MAX_SECTIONS:
        message = f"has {len(sections):,} parts, and at most {MAX_SECTIONS:,} are read"
        raise InventoryFormatError(message)
    if texts and (sections or len(texts) > 1):
        message = "mixes text with other files; send each by itself"
        raise InventoryFormatError(message)
    if texts:
        return _read_text(texts[0], declared, settings)
    return _read_sections(sections, declared, settings)


def _load(content: object, declared: InventoryFormat | None) -> object:
    """Return a content's JSON documents, or its text where it is none."""
    if not isinstance(content, str):
        return content
    stripped = content.strip("\ufeff \t\r\n")
    if not stripped:
        message = "is empty"
        raise InventoryFormatError(message)
    if stripped.startswith("<") or METRIC in stripped[:100_000] or declared in _TEXTS:
        return stripped
    if stripped.startswith(START):
        return parse_nodes(stripped)
    _refuse_listing(stripped)
    return parse_documents(stripped)


def _refuse_listing(text: str) -> None:
    """Refuse what a tool prints for people."""
    head = text[:_HEAD]
    for mark, tool, sent in _LISTINGS:
        if mark in head:
            message = f"is what {tool} prints for people, without what is needed: send {sent}"
            raise InventoryFormatError(message)


def _read_text(
    text: str, declared: InventoryFormat | None, options: ReadingOptions
) -> ObservedInventory:
    detected = InventoryFormat.NVIDIA_SMI if text.startswith("<") else InventoryFormat.DCGM
    _require_declared(detected, declared)
    if detected is InventoryFormat.NVIDIA_SMI:
        return read_nvidia_smi(text, node=options.node)
    return read_dcgm(text)


def _read_sections(
    sections: Sequence[Json], declared: InventoryFormat | None, options: ReadingOptions
) -> ObservedInventory:
    if not sections:
        message = f"has no object; {EXPECTED}"
        raise InventoryFormatError(message)
    detected = {_detect(section) for section in sections}
    if len(detected) > 1:
        names = " and ".join(sorted(name.value for name in detected))
        message = f"mixes {names}; send each by itself"
        raise InventoryFormatError(message)
    name = detected.pop()
    _require_declared(name, declared)
    if name is InventoryFormat.KUBERNETES:
        return read_kubernetes(sections, tolerated=options.tolerated)
    return _READERS[name](sections)


def _detect(section: Json) -> InventoryFormat:
    for name, is_kind in _MARKS:
        if is_kind(section):
            return name
    keys = ", ".join(repr(key[:40]) for key in list(section)[:5])
    message = f"has no known form (it has {keys or 'no key'}); {EXPECTED}"
    raise InventoryFormatError(message)


def _is_slurm(section: Json) -> bool:
    return any(isinstance(section.get(key), list) for key in ("nodes", "sinfo", "jobs"))


def _require_declared(detected: InventoryFormat, declared: InventoryFormat | None) -> None:
    if declared is not None and declared is not detected:
        message = f"is declared as {declared.value}, and has the form of {detected.value}"
        raise InventoryFormatError(message, field="format")


_MARKS: Sequence[tuple[InventoryFormat, Callable[[Json], bool]]] = (
    (InventoryFormat.KUBERNETES, is_kubernetes),
    (InventoryFormat.RAY, is_ray),
    (InventoryFormat.DSTACK, is_dstack),
    (InventoryFormat.SLURM, _is_slurm),
    (InventoryFormat.SKYPILOT, is_skypilot),
)
_READERS: Mapping[InventoryFormat, Callable[[Sequence[Json]], ObservedInventory]] = {
    InventoryFormat.SLURM: read_slurm,
    InventoryFormat.RAY: read_ray,
    InventoryFormat.DSTACK: read_dstack,
    InventoryFormat.SKYPILOT: read_skypilot,
}
