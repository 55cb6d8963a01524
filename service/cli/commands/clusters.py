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
from service.cli.views.tables import add_title, make_console, make_table, show_bytes

_SHOWN_NODES = 16
_UNAVAILABLE = {"drained_gpus": "drained", "mig_gpus": "in slices"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the cluster and its file."""
    add_actions(parser, noun="cluster")
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help='a JSON object with "pools", for add and replace'
    )
    parser.add_argument(
        "--end-reservations",
        action="store_true",
        help="with delete: end what is reserved on it as well",
    )


def run(options: argparse.Namespace) -> int:
    """Run the action and print its result."""
    return run_action(
        options,
        "clusters",
        body=lambda: _read_body(options),
        show_list=_show_list,
        show_one=show_cluster,
    )


def _read_body(options: argparse.Namespace) -> Document:
    if options.file is None:
        message = (
            'which pools? name a file with --file FILE; it holds {"pools": [{"name", "gpu", '
            '"gpus_per_node", "num_nodes"}]}'
        )
        raise InvalidRequestError(message)
    document = read_object(options.file)
    if document.get("name", options.name) != options.name:
        message = (
            f"{options.file} is about the cluster {document['name']!r}, the command about "
            f"{options.name!r}"
        )
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
    make_console().print(make_table(columns, rows, right=("GPUs", "reserved", "free")))


def show_cluster(cluster: Document) -> None:
    """Print one cluster: its pools, its slices, and who holds what."""
    screen = make_console()
    screen.print(add_title(cluster["name"], _build_pool_table(cluster)))
    for pool in cluster["pools"]:
        if unavailable := [
            f"{pool[name]} {label}" for name, label in _UNAVAILABLE.items() if pool[name]
        ]:
            screen.print(
                f"{pool['name']}: of {pool['total_gpus']} GPUs {', '.join(unavailable)}",
                soft_wrap=True,
                markup=False,
            )
    if slices := list(_iter_slices(cluster)):
        columns = ("pool", "MIG profile", "slices", "held or reserved", "free")
        screen.print(
            add_title(
                "slices, on nodes of every state", make_table(columns, slices, right=columns[2:])
            ),
        )
    if allocations := list(_iter_allocations(cluster)):
        screen.print(
            add_title(
                "held", make_table(("pool", "by", "GPUs", "on"), allocations, right=("GPUs",))
            ),
        )
    for warning in cluster.get("warnings", ()):
        screen.print(f"warning: {warning}", soft_wrap=True, markup=False)


def _build_pool_table(cluster: Document) -> Table:
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
    return make_table(columns, rows, right=columns[2:])


def _iter_slices(cluster: Document) -> Iterator[tuple[str, ...]]:
    """Yield the slices of each pool and profile, summed over its nodes."""
    for pool in cluster["pools"]:
        sums: dict[str, Counter[str]] = {}
        for node in pool["nodes"] or ():
            for part in node["mig_slices"]:
                sums.setdefault(part["profile"], Counter()).update(
                    {name: part[name] for name in ("total", "free")}
                )
        for profile, counts in sums.items():
            yield (
                pool["name"],
                profile,
                str(counts["total"]),
                str(counts["total"] - counts["free"]),
                str(counts["free"]),
            )


def _iter_allocations(cluster: Document) -> Iterator[tuple[str, ...]]:
    """Yield the holders of each pool's GPUs and their nodes."""
    for pool in cluster["pools"]:
        by_holder: dict[str, Counter[str]] = {}
        for node in pool["nodes"] or ():
            for part in node["allocations"]:
                by_holder.setdefault(part["holder"], Counter())[node["name"]] += part["num_gpus"]
        for holder, nodes in by_holder.items():
            more = f" and {len(nodes) - _SHOWN_NODES} more" if len(nodes) > _SHOWN_NODES else ""
            yield (
                pool["name"],
                holder,
                str(nodes.total()),
                ", ".join(list(nodes)[:_SHOWN_NODES]) + more,
            )
