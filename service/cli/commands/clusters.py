"""List, show, store and delete the cluster inventories of a server."""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from service.base.errors import InvalidRequestError
from service.cli.files import read_object
from service.cli.http import Document
from service.cli.resources import add_actions, run_action
from service.cli.views.tables import console, show_bytes, table, titled

_SHOWN_NODES = 16
_TAKEN = {"drained_gpus": "drained", "mig_gpus": "in slices"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take what to do, with which cluster, and what it is."""
    add_actions(parser, noun="cluster")
    parser.add_argument("--file", type=Path, metavar="FILE", help='a JSON object with "pools", for add and replace')
    parser.add_argument("--end-reservations", action="store_true", help="with delete: end what is reserved on it as well")


def run(options: argparse.Namespace) -> int:
    """Do it and print what came of it."""
    return run_action(options, "clusters", body=lambda: _body(options), show_list=_show_list, show_one=show_cluster)


def _body(options: argparse.Namespace) -> Document:
    if options.file is None:
        message = (
            'which pools? name a file with --file FILE; it holds {"pools": [{"name", "gpu", "gpus_per_node", "num_nodes"}]}'
        )
        raise InvalidRequestError(message)
    document = read_object(options.file)
    if document.get("name", options.name) != options.name:
        message = f"{options.file} is about the cluster {document['name']!r}, the command about {options.name!r}"
        raise InvalidRequestError(message)
    return document


def _show_list(items: list[Document]) -> None:
    columns = ("name", "pools", "GPUs", "reserved", "free")
    rows = [
        (
            item["name"],
            ", ".join(pool["gpu"] for pool in item["pools"]),
            str(sum(pool["total_gpus"] for pool in item["pools"])),
            str(sum(pool["reserved_gpus"] for pool in item["pools"])),
            str(sum(pool["free_gpus"] for pool in item["pools"])),
        )
        for item in items
    ]
    console().print(table(columns, rows, right=("GPUs", "reserved", "free")))


def show_cluster(cluster: Document) -> None:
    """Print one cluster: its pools, its slices, and who holds what."""
    screen = console()
    screen.print(titled(cluster["name"], _pools(cluster)))
    for pool in cluster["pools"]:
        if taken := [f"{pool[name]} {words}" for name, words in _TAKEN.items() if pool[name]]:
            screen.print(f"{pool['name']}: of {pool['total_gpus']} GPUs {', '.join(taken)}", soft_wrap=True, markup=False)
    if slices := list(_slices(cluster)):
        columns = ("pool", "MIG profile", "slices", "held or reserved", "free")
        screen.print(titled("slices, on nodes of every state", table(columns, slices, right=columns[2:])))
    if held := list(_held(cluster)):
        screen.print(titled("held", table(("pool", "by", "GPUs", "on"), held, right=("GPUs",))))
    for warning in cluster.get("warnings", ()):
        screen.print(f"warning: {warning}", soft_wrap=True, markup=False)


def _pools(cluster: Document) -> Table:
    columns = ("pool", "GPU", "per node", "GPUs", "reserved", "free", "host memory")
    rows = [
        (
            pool["name"],
            pool["gpu"],
            str(pool["gpus_per_node"]),
            str(pool["total_gpus"]),
            str(pool["reserved_gpus"]),
            str(pool["free_gpus"]),
            show_bytes(pool["host_memory_bytes"]),
        )
        for pool in cluster["pools"]
    ]
    return table(columns, rows, right=columns[2:])


def _slices(cluster: Document) -> Iterator[tuple[str, ...]]:
    """Yield the slices of each pool and profile, summed over its nodes."""
    for pool in cluster["pools"]:
        sums: dict[str, Counter[str]] = {}
        for node in pool["nodes"] or ():
            for part in node["mig_slices"]:
                sums.setdefault(part["profile"], Counter()).update({name: part[name] for name in ("total", "free")})
        for profile, found in sums.items():
            yield pool["name"], profile, str(found["total"]), str(found["total"] - found["free"]), str(found["free"])


def _held(cluster: Document) -> Iterator[tuple[str, ...]]:
    """Yield who holds how many GPUs of a pool, and on which nodes."""
    for pool in cluster["pools"]:
        by_holder: dict[str, Counter[str]] = {}
        for node in pool["nodes"] or ():
            for part in node["allocations"]:
                by_holder.setdefault(part["holder"], Counter())[node["name"]] += part["num_gpus"]
        for holder, nodes in by_holder.items():
            more = f" and {len(nodes) - _SHOWN_NODES} more" if len(nodes) > _SHOWN_NODES else ""
            yield pool["name"], holder, str(nodes.total()), ", ".join(list(nodes)[:_SHOWN_NODES]) + more
