"""Slurm's nodes, partitions and jobs as JSON.

``scontrol show nodes --json`` (23.02 and later) and 22.05's ``sinfo --json`` list nodes, ``sinfo
--json`` since then groups of nodes, ``squeue --json`` jobs. Shapes: src/plugins/openapi/v0.0.38 of
22.05, src/plugins/data_parser/v0.0.42 of 24.11 and v0.0.45 of 26.05.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from service.estimator.values.units import ceil_div
from service.formats.gpu_requests.gres import Gres
from service.formats.inventories.documents import (
    Json,
    get_count,
    get_mebibytes,
    get_object,
    get_objects,
    get_text,
    get_texts,
)
from service.formats.inventories.hostlists import expand_hostlist
from service.formats.inventories.observed import (
    InventoryFormat,
    InventoryFormatError,
    ObservedInventory,
    ObservedNode,
    Omission,
    check_nodes,
)
from service.formats.inventories.slurm_gres import build_gpus, read_node_gres

_CLOSED = frozenset(
    {
        "DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "UNKNOWN",
        "MAINTENANCE", "MAINT", "NOT_RESPONDING", "NO_RESPOND", "INVALID_REG", "INVAL",
        "REBOOT_ISSUED", "RESERVED", "RESV", "RES", "BLOCKED", "POWER_DRAIN",
    }
)  # fmt: skip
"""States in which no new job starts (src/plugins/data_parser, NODE_STATES). One that is powered
down is woken for a job.
"""
_ABSENT = frozenset({"FUTURE", "DYNAMIC_FUTURE"})
_RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT"})
_SHORT_STATE = "*~#!%$@^-"
_SHOWN = 5
"""Nodes that an omission names."""

JobsByNode = Mapping[str, Sequence[tuple[str, Gres]]]


def read_slurm(documents: Sequence[Json]) -> ObservedInventory:
    """Return the nodes of some documents of one moment."""
    rows = [row for document in documents for row in _iter_rows(document)]
    jobs = _index_jobs([job for document in documents for job in get_objects(document, "jobs")])
    if not rows:
        message = (
            "lists no nodes; send `scontrol show nodes --json`, of Slurm 22.05 `sinfo --json`, "
            "and `squeue --json` beside it"
        )
        raise InventoryFormatError(message)
    merged = {get_text(row, "name"): row for row in rows}
    nodes = [_read_node(row, jobs.get(name, ())) for name, row in merged.items()]
    present = [node for row, node in zip(merged.values(), nodes, strict=True) if _exists(row)]
    names = _read_level_names(merged.values())
    return ObservedInventory(
        format=InventoryFormat.SLURM,
        version=next((release for part in documents if (release := _read_release(part))), None),
        nodes=check_nodes(_place(node, merged[node.name], names) for node in present if node.gpus),
        level_names=names,
        omissions=tuple(_iter_omissions(merged.values(), nodes)),
    )


def _iter_rows(document: Json) -> Iterator[Json]:
    """Yield one object a node; the groups of ``sinfo`` are taken apart."""
    yield from (row for row in get_objects(document, "nodes") if get_text(row, "name"))
    for group in (*get_objects(document, "sinfo"), *get_objects(document, "nodes")):
        if "node" not in group:
            continue
        members = get_texts(get_object(group, "nodes"), "nodes")
        names = [host for name in members for host in expand_hostlist(name)]
        row = _read_group(group, len(names))
        yield from ({"name": name, **row} for name in names)


def _read_group(group: Json, num_nodes: int) -> Json:
    """Return what every node of a group has."""
    gres, memory = get_object(group, "gres"), get_object(group, "memory")
    return {
        "state": get_texts(get_object(group, "node"), "state"),
        "gres": get_text(gres, "total"),
        "gres_used": get_text(gres, "used"),
        "reason": get_text(get_object(group, "reason"), "description"),
        "real_memory": get_count(memory, "minimum"),
        "alloc_memory": ceil_div(get_count(memory, "allocated") or 0, max(num_nodes, 1)),
        "reservation": get_text(group, "reservation"),
    }


def _read_node(row: Json, jobs: Sequence[tuple[str, Gres]]) -> ObservedNode:
    gres = _read_total(row)
    used = read_node_gres(get_text(row, "gres_used"))
    return ObservedNode(
        name=get_text(row, "name"),
        gpus=build_gpus(gres, used, jobs),
        unavailable=_explain_closed(row),
        host_memory_bytes=get_mebibytes(row, "real_memory"),
        used_host_bytes=get_mebibytes(row, "alloc_memory") or 0,
    )


def _read_total(row: Json) -> tuple[Gres, ...]:
    """Return a node's GPUs, else those of its TRES."""
    gres = tuple(entry for entry in read_node_gres(get_text(row, "gres")) if entry.kind == "gpu")
    if gres:
        return gres
    tres = [entry for entry in read_node_gres(get_text(row, "tres")) if entry.kind == "gpu"]
    typed = tuple(entry for entry in tres if entry.type)
    return typed or tuple(tres)


def _list_states(row: Json) -> list[str]:
    states = [*get_texts(row, "state"), *get_texts(row, "state_flags")]
    return [
        state.strip(_SHORT_STATE).upper() for text in states for state in text.split("+") if state
    ]


def _exists(row: Json) -> bool:
    return not _ABSENT & set(_list_states(row))


def _explain_closed(row: Json) -> str | None:
    closed = [state for state in _list_states(row) if state in _CLOSED]
    if not closed:
        return None
    reason = get_text(row, "reason") or get_text(row, "reservation")
    return f"{' '.join(closed).lower()}{f': {reason}' if reason else ''}"[:200]


def _read_release(document: Json) -> str | None:
    meta = get_object(document, "meta")
    for name in ("slurm", "Slurm"):
        if release := get_text(get_object(meta, name), "release"):
            return release[:40]
    return None


def _index_jobs(jobs: Sequence[Json]) -> JobsByNode:
    """Return what running jobs have, by node.

    ``gres_detail`` has one text a node, in the order of the job's nodes.
    """
    by_node: dict[str, list[tuple[str, Gres]]] = {}
    for job in jobs:
        if not _RUNNING & {state.upper() for state in get_texts(job, "job_state")}:
            continue
        details = job.get("gres_detail")
        texts = details if isinstance(details, list) else []
        names = expand_hostlist(get_text(job, "nodes"))
        for name, text in zip(names, texts, strict=False):
            by_node.setdefault(name, []).extend(
                (_name_holder(job), entry)
                for entry in read_node_gres(text if isinstance(text, str) else "")
            )
    return by_node


def _name_holder(job: Json) -> str:
    number = get_count(job, "job_id")
    user = get_text(job, "user_name")
    return f"{user or 'slurm'} job {number if number is not None else '?'}"[:120]


def _read_level_names(rows: Collection[Json]) -> tuple[str, ...]:
    """Return the levels of the first topology that nodes name.

    26.05 writes ``topo-tree:root:s1:s2``, from the root to the leaf (slurm.conf, Topology).
    """
    for row in rows:
        path = _read_path(row)
        if path:
            return tuple(f"level-{number}" for number in range(1, len(path) + 1))
    return ()


def _read_path(row: Json) -> tuple[str, ...]:
    return tuple(part[:80] for part in get_text(row, "topology").split(",")[0].split(":")[1:5])


def _place(node: ObservedNode, row: Json, level_names: Sequence[str]) -> ObservedNode:
    path = _read_path(row)
    if not level_names or len(path) != len(level_names):
        return node
    return replace(node, levels=path)


def _iter_omissions(rows: Collection[Json], nodes: Sequence[ObservedNode]) -> Iterator[Omission]:
    silent = [node.name for node in nodes if not node.gpus]
    if silent:
        yield Omission(what=_join(silent), reason="has no GPUs")
    future = [get_text(row, "name") for row in rows if not _exists(row)]
    if future:
        yield Omission(what=_join(future), reason="is announced for the future")


def _join(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
