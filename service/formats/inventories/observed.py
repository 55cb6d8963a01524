"""Nodes as another tool shows them, before the catalogue names their GPUs.

What there is and what is used now are kept apart.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from service.estimator.values.errors import InvalidInputError

MAX_NODES = 10_000
"""Of one file, as many as a cluster may have."""
MAX_GPUS = 256
"""Of one node; device plugins and Slurm know none with more."""


class InventoryFormat(StrEnum):
    """Tool whose listing of nodes is read."""

    KUBERNETES = "kubernetes"
    SLURM = "slurm"
    NVIDIA_SMI = "nvidia-smi"
    RAY = "ray"
    DSTACK = "dstack"
    SKYPILOT = "skypilot"
    DCGM = "dcgm"


PARTIAL = frozenset({InventoryFormat.NVIDIA_SMI, InventoryFormat.DCGM})
"""Formats that show single nodes: a node that they lack need not be gone."""


class InventoryFormatError(InvalidInputError):
    """A file that is no listing of the declared tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedUse:
    """GPUs that somebody uses, by index where the tool shows it."""

    holder: str
    num_gpus: int
    gpu_indices: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSlices:
    """MIG slices of one profile on a node.

    Where the tool does not name the profile, ``memory_bytes`` and ``multiprocessors`` of one slice
    tell it.
    """

    total: int
    used: int = 0
    profile: str = ""
    memory_bytes: int | None = None
    multiprocessors: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGpus:
    """Equal GPUs of one node.

    ``name`` is spelled as the tool does. ``memory_bytes`` is the driver's total of one GPU and
    ``reserved_bytes`` what the driver withholds of it, None where the tool does not say.

    ``count`` GPUs are whole; ``mig_gpus`` more are cut into ``slices``, None where only the slices
    are shown. ``replicas`` is how often each is given out: time slices, with no part of the memory.
    """

    name: str
    count: int
    memory_bytes: int | None = None
    reserved_bytes: int | None = None
    used: tuple[ObservedUse, ...] = ()
    slices: tuple[ObservedSlices, ...] = ()
    mig_gpus: int | None = None
    replicas: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """One node: what it has, and whether it takes work.

    ``unavailable`` says why it takes none. ``levels`` are its places in the network, outermost
    first, under the names that the inventory has for them.
    """

    name: str
    gpus: tuple[ObservedGpus, ...]
    unavailable: str | None = None
    host_memory_bytes: int | None = None
    used_host_bytes: int = 0
    nvlink_domain: str | None = None
    """GPUs of nodes with one domain reach each other over NVLink."""
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """A part of a file that became no GPU, and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedInventory:
    """The GPU nodes of a file.

    ``version`` is the tool's. ``observed_at`` is None where the file does not say when it was
    taken.
    """

    format: InventoryFormat
    nodes: tuple[ObservedNode, ...]
    version: str | None = None
    observed_at: datetime | None = None
    level_names: tuple[str, ...] = ()
    omissions: tuple[Omission, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The tool and its version, as nodes keep it."""
        return self.format.value if self.version is None else f"{self.format.value} {self.version}"


def check_nodes(nodes: Iterable[ObservedNode]) -> tuple[ObservedNode, ...]:
    """Return the nodes, or refuse too many and doubled names."""
    checked = tuple(nodes)
    if len(checked) > MAX_NODES:
        message = f"has {len(checked):,} nodes, and a cluster may have {MAX_NODES:,}"
        raise InventoryFormatError(message)
    seen: set[str] = set()
    for node in checked:
        if node.name in seen:
            message = f"shows node {node.name[:80]!r} twice"
            raise InventoryFormatError(message)
        seen.add(node.name)
    return checked
