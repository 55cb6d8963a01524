"""Nodes as ``scontrol show nodes`` prints them for people.

They become the form of its JSON.

Slurm 26.05, src/api/node_info.c (``slurm_sprint_node_table``); ``-d`` adds ``GresUsed``, and ``-o``
puts a node on a line.
"""

import re

from service.formats.gpu_requests.gres import read_gres
from service.formats.inventories.documents import Json

START = "NodeName="
_NODE = re.compile(r"^NodeName=", re.MULTILINE)
_WORDS = ("Gres", "GresUsed", "State", "RealMemory", "AllocMem", "CfgTRES", "AllocTRES", "Version")
_FIELDS = re.compile(rf"(?<!\S)({'|'.join(_WORDS)})=(\S*+)")
_REASON = re.compile(r"(?<!\S)Reason=([^\n]{0,200}+)")
_UNUSED = frozenset({"IDLE", "DOWN", "FUTURE", "UNKNOWN"})
"""States in which a node runs nothing (``node_state_string``)."""


def parse_nodes(text: str) -> Json:
    """Return the nodes of a text in the JSON's form."""
    rows = [_read_row(part) for part in _NODE.split(text)[1:]]
    releases = [str(row["version"]) for row in rows if row["version"]]
    return {"nodes": rows, "meta": {"slurm": {"release": releases[0] if releases else ""}}}


def _read_row(text: str) -> Json:
    fields = dict(_FIELDS.findall(text))
    reason = _REASON.search(text)
    name = text.split(maxsplit=1)[:1]
    return {
        "name": name[0] if name else "",
        "state": fields.get("State", ""),
        "gres": fields.get("Gres", ""),
        "gres_used": _find_used(fields),
        "tres": fields.get("CfgTRES", ""),
        "real_memory": _read_number(fields.get("RealMemory", "")),
        "alloc_memory": _read_number(fields.get("AllocMem", "")),
        "reason": "" if reason is None else reason[1].strip(),
        "version": fields.get("Version", ""),
    }


def _find_used(fields: dict[str, str]) -> str:
    """Return the GPUs in use.

    Without ``-d`` they are those of the allocated resources; where the cluster does not track GPUs
    among these, all of a node that runs anything.
    """
    if "GresUsed" in fields:
        return fields["GresUsed"]
    allocated = [entry for entry in read_gres(fields.get("AllocTRES", "")) if entry.kind == "gpu"]
    if allocated or read_gres(fields.get("CfgTRES", "")):
        typed = [entry for entry in allocated if entry.type] or allocated
        return ",".join(f"gpu:{entry.type}:{entry.count}".replace("::", ":") for entry in typed)
    is_unused = fields.get("State", "").split("+")[0].rstrip("*") in _UNUSED
    return "" if is_unused else fields.get("Gres", "")


def _read_number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < len(str(1 << 53)) else None
