"""GPUs from pages of the DCGM exporter.

Its ``DCGM_FI_DEV_FB_*`` gauges count MiB.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from service.estimator.values.units import MIB
from service.formats.inventories.observed import (
    InventoryFormat,
    InventoryFormatError,
    ObservedGpus,
    ObservedInventory,
    ObservedNode,
    ObservedSlices,
    ObservedUse,
    check_nodes,
)

METRIC = "DCGM_FI_DEV_FB_"
_SAMPLE = re.compile(
    r"(?P<name>DCGM_FI_DEV_FB_(?:TOTAL|FREE|USED|RESERVED))\{(?P<labels>[^{}\n]{0,4096})\}"
    r"\s+(?P<value>[0-9]{1,9})(?:\.[0-9]+)?(?:\s+-?[0-9]+)?\s*",
    re.ASCII,
)
_LABEL = re.compile(r'(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*+)="([^"\\]{0,256})"', re.ASCII)
_MAX_LINES = 500_000


@dataclass(slots=True, kw_only=True)
class _Gpu:
    labels: Mapping[str, str]
    values: dict[str, int] = field(default_factory=dict)


def read_dcgm(text: str) -> ObservedInventory:
    """Return the GPUs of every host of the page."""
    gpus: dict[tuple[str, str, str], _Gpu] = {}
    for name, labels, value in _iter_samples(text):
        host = labels.get("Hostname") or labels.get("hostname") or labels.get("instance", "")
        key = host, labels.get("UUID", labels.get("gpu", "")), labels.get("GPU_I_ID", "")
        gpu = gpus.setdefault(key, _Gpu(labels=labels))
        gpu.values[name.removeprefix(METRIC)] = value
    if not gpus:
        message = f"has no {METRIC}FREE or {METRIC}USED, which say a GPU's memory"
        raise InventoryFormatError(message)
    hosts: dict[str, list[_Gpu]] = {}
    for (host, _, _), gpu in gpus.items():
        hosts.setdefault(host, []).append(gpu)
    return ObservedInventory(
        format=InventoryFormat.DCGM,
        nodes=check_nodes(_build_node(host, group) for host, group in hosts.items()),
    )


def _iter_samples(text: str) -> Iterator[tuple[str, Mapping[str, str], int]]:
    lines = text.splitlines()
    if len(lines) > _MAX_LINES:
        message = f"has {len(lines):,} lines, and at most {_MAX_LINES:,} are read"
        raise InventoryFormatError(message)
    for line in lines:
        match = _SAMPLE.fullmatch(line)
        if match is not None:
            yield match["name"], dict(_LABEL.findall(match["labels"])), int(match["value"])


def _build_node(host: str, group: Sequence[_Gpu]) -> ObservedNode:
    by_name: dict[str, list[_Gpu]] = {}
    for gpu in group:
        by_name.setdefault(gpu.labels.get("modelName", ""), []).append(gpu)
    return ObservedNode(
        name=host, gpus=tuple(_build_gpus(name, gpus) for name, gpus in by_name.items())
    )


def _build_gpus(name: str, gpus: Sequence[_Gpu]) -> ObservedGpus:
    cut = [gpu for gpu in gpus if gpu.labels.get("GPU_I_PROFILE")]
    parents = {gpu.labels.get("UUID", gpu.labels.get("gpu", "")) for gpu in cut}
    uncut = [
        gpu
        for gpu in gpus
        if gpu not in cut and gpu.labels.get("UUID", gpu.labels.get("gpu", "")) not in parents
    ]
    profiles = [gpu.labels["GPU_I_PROFILE"] for gpu in cut]
    of_pods = [gpu.labels["GPU_I_PROFILE"] for gpu in cut if gpu.labels.get("pod")]
    uses: dict[str, int] = {}
    for gpu in uncut:
        if gpu.labels.get("pod"):
            holder = f"{gpu.labels.get('namespace', '')}/{gpu.labels['pod']}"[:120]
            uses[holder] = uses.get(holder, 0) + 1
    return ObservedGpus(
        name=name,
        count=len(uncut),
        memory_bytes=min((total for gpu in uncut if (total := _sum_memory(gpu))), default=None),
        reserved_bytes=max(
            (gpu.values["RESERVED"] * MIB for gpu in uncut if "RESERVED" in gpu.values),
            default=None,
        ),
        used=tuple(ObservedUse(holder=holder, num_gpus=count) for holder, count in uses.items()),
        slices=tuple(
            ObservedSlices(
                profile=profile, total=profiles.count(profile), used=of_pods.count(profile)
            )
            for profile in dict.fromkeys(profiles)
        ),
        mig_gpus=len(parents),
    )


def _sum_memory(gpu: _Gpu) -> int:
    """Return the card's memory: its total, else that of the parts."""
    parts = (gpu.values.get(name, 0) for name in ("FREE", "USED", "RESERVED"))
    return (gpu.values.get("TOTAL") or sum(parts)) * MIB
