"""Observed nodes as pools of equal nodes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from service.formats.inventories.observed import (
    ObservedGpus,
    ObservedInventory,
    ObservedNode,
    Omission,
)
from service.planner.cluster.inventory import Allocation, Node, NodeState, Pool
from service.usecases.clusters.observed_gpus import (
    TOLERANCE,
    NamedGpu,
    cut_gpus,
    list_possible_names,
    name_gpu,
    to_printable,
)

_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", re.ASCII)
_PORT = re.compile(r":[0-9]{1,5}$", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^a-z0-9._-]+")
_LONGEST_HOLDER = 120
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownGpu:
    """A GPU that the catalogue cannot name.

    ``memory_bytes`` is what can be allocated on it, 0 where nobody says; ``candidates`` are the
    names that may be meant.
    """

    name: str
    num_nodes: int
    num_gpus: int
    memory_bytes: int
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPools:
    """The pools of an import, and what became no part of them."""

    pools: tuple[Pool, ...]
    unknown_gpus: tuple[UnknownGpu, ...]
    omissions: tuple[Omission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    gpu: NamedGpu
    gpus_per_node: int
    gpu_replicas: int | None
    domain_nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    node: Node
    host_memory_bytes: int | None
    nvlink_domain: str


@dataclass(slots=True, kw_only=True)
class _Notes:
    unknown: dict[NamedGpu, list[tuple[str, int, tuple[str, ...]]]] = field(default_factory=dict)
    omissions: dict[str, list[str]] = field(default_factory=dict)

    def omit(self, node: str, reason: str) -> None:
        self.omissions.setdefault(reason, []).append(node)


def build_pools(
    observed: ObservedInventory, *, observed_at: datetime, aliases: Mapping[str, NamedGpu]
) -> ObservedPools:
    """Return the nodes as pools of equal machines."""
    notes = _Notes()
    domains = _count_domains(observed.nodes)
    members: dict[_Kind, list[_Member]] = {}
    for observed_node in observed.nodes:
        node = replace(observed_node, name=_PORT.sub("", observed_node.name))
        if _NODE_NAME.fullmatch(node.name) is None:
            notes.omit(to_printable(node.name, longest=80), "has no name that a host can have")
            continue
        stamp = (observed.source[:80], observed_at)
        for gpus in node.gpus:
            for kind, member in _iter_members(node, gpus, aliases, domains, stamp, notes):
                members.setdefault(kind, []).append(member)
    pools = [
        pool
        for kind, group in members.items()
        for pool in _build_kind(kind, group, observed.level_names)
    ]
    return ObservedPools(
        pools=tuple(_name_apart(pools)),
        unknown_gpus=tuple(_iter_unknown(notes)),
        omissions=(*observed.omissions, *_iter_omissions(notes)),
    )


def _iter_members(
    node: ObservedNode,
    gpus: ObservedGpus,
    aliases: Mapping[str, NamedGpu],
    domains: Mapping[str, int],
    stamp: tuple[str, datetime],
    notes: _Notes,
) -> Iterator[tuple[_Kind, _Member]]:
    gpu = name_gpu(gpus, aliases)
    cut = cut_gpus(gpus, gpu.entry)
    total = gpus.count + cut.num_gpus
    for unknown in cut.unknown:
        notes.omit(node.name, f"has {unknown} of {gpu.name}, which the catalogue does not have")
    if not total:
        return
    if gpu.memory_bytes is not None:
        notes.unknown.setdefault(gpu, []).append((node.name, total, list_possible_names(gpus)))
    domain = node.nvlink_domain or ""
    kind = _Kind(
        gpu=gpu,
        gpus_per_node=total,
        gpu_replicas=gpus.replicas if gpus.replicas > 1 else None,
        domain_nodes=domains.get(domain, 1),
    )
    allocations = tuple(_iter_allocations(node, gpus))
    yield (
        kind,
        _Member(
            node=Node(
                name=node.name,
                allocated_gpus=sum(part.num_gpus for part in allocations),
                state=NodeState.READY if node.unavailable is None else NodeState.DRAINED,
                unavailable=to_printable(node.unavailable, longest=200)
                if node.unavailable
                else None,
                allocations=allocations,
                mig_gpus=cut.num_gpus,
                mig_slices=cut.slices,
                levels=tuple(to_printable(level, longest=120) for level in node.levels),
                source=stamp[0],
                observed_at=stamp[1],
            ),
            host_memory_bytes=node.host_memory_bytes,
            nvlink_domain=domain,
        ),
    )


def _iter_allocations(node: ObservedNode, gpus: ObservedGpus) -> Iterator[Allocation]:
    """Yield who has GPUs, then the used host memory.

    No more than there are, and indices only where they are all of the node's own.
    """
    free, seen = gpus.count, set[int]()
    for use in gpus.used:
        num_gpus = min(use.num_gpus, free)
        indices = use.gpu_indices
        if indices is not None and (
            num_gpus < use.num_gpus or seen & set(indices) or max(indices) >= gpus.count
        ):
            indices = None
        seen |= set(indices or ())
        free -= num_gpus
        if num_gpus:
            yield Allocation(
                holder=to_printable(use.holder, longest=_LONGEST_HOLDER) or "unknown",
                num_gpus=num_gpus,
                gpu_indices=indices,
            )
    if node.used_host_bytes:
        yield Allocation(
            holder="host memory in use", num_gpus=0, host_memory_bytes=node.used_host_bytes
        )


def _build_kind(
    kind: _Kind, members: Sequence[_Member], level_names: tuple[str, ...]
) -> Iterator[Pool]:
    """Yield a pool for each clearly different host memory.

    Machines of one type differ by what firmware and kernels keep; a pool has the smallest.
    """
    spans = kind.domain_nodes > 1
    for group in _split_by_memory(members):
        ordered = sorted(group, key=lambda member: member.nvlink_domain) if spans else group
        memories = [part.host_memory_bytes for part in group if part.host_memory_bytes]
        has_levels = any(member.node.levels for member in group)
        # A domain that memory splits is no island of this pool any more.
        is_complete = spans and len(group) % kind.domain_nodes == 0
        yield Pool(
            name=_make_pool_name(kind),
            gpu=kind.gpu.name,
            gpus_per_node=kind.gpus_per_node,
            nodes=tuple(member.node for member in ordered),
            nvlink_island_size=kind.gpus_per_node * kind.domain_nodes if is_complete else None,
            host_memory_bytes=min(memories, default=None),
            gpu_memory_bytes=kind.gpu.memory_bytes,
            gpu_replicas=kind.gpu_replicas,
            level_names=tuple(to_printable(name, longest=120) for name in level_names)
            if has_levels
            else (),
        )


def _split_by_memory(members: Sequence[_Member]) -> list[list[_Member]]:
    largest = sorted({part.host_memory_bytes for part in members if part.host_memory_bytes})
    floors: list[int] = []
    ceiling = None
    for size in reversed(largest):
        if ceiling is None or size < ceiling - ceiling // TOLERANCE:
            ceiling = size
            floors.append(size - size // TOLERANCE)
    groups: dict[int, list[_Member]] = {}
    for member in members:
        size = member.host_memory_bytes or 0
        floor = next((floor for floor in floors if size >= floor), 0)
        groups.setdefault(floor, []).append(member)
    return list(groups.values())


def _count_domains(nodes: Sequence[ObservedNode]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for node in nodes:
        if node.nvlink_domain:
            counts[node.nvlink_domain] = counts.get(node.nvlink_domain, 0) + 1
    return counts


def _make_pool_name(kind: _Kind) -> str:
    word = _NOT_IN_NAMES.sub("-", kind.gpu.name.casefold()).strip("-._")[:40] or "gpu"
    shared = "-shared" if kind.gpu_replicas else ""
    return f"{word}-x{kind.gpus_per_node}{shared}"


def _name_apart(pools: Sequence[Pool]) -> Iterator[Pool]:
    counts: dict[str, int] = {}
    for pool in pools:
        counts[pool.name] = counts.get(pool.name, 0) + 1
        number = counts[pool.name]
        yield pool if number == 1 else replace(pool, name=f"{pool.name}-{number}")


def _iter_unknown(notes: _Notes) -> Iterator[UnknownGpu]:
    for gpu, places in notes.unknown.items():
        yield UnknownGpu(
            name=gpu.name,
            num_nodes=len({node for node, _, _ in places}),
            num_gpus=sum(count for _, count, _ in places),
            memory_bytes=gpu.memory_bytes or 0,
            candidates=places[0][2],
        )


def _iter_omissions(notes: _Notes) -> Iterator[Omission]:
    for reason, nodes in notes.omissions.items():
        more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
        yield Omission(what=f"{', '.join(nodes[:_SHOWN])}{more}", reason=reason)
