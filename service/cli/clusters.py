"""List, show, store and delete the cluster inventories of a server."""

import argparse
from pathlib import Path

from service.cli.files import read_object
from service.cli.http import Document
from service.cli.resources import add_actions, run_action
from service.cli.tables import console, show_bytes, table, titled
from service.errors import InvalidRequestError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take what to do, with which cluster, and what it is."""
    add_actions(parser, noun="cluster")
    parser.add_argument("--file", type=Path, metavar="FILE", help='a JSON object with "pools", for add and replace')


def run(options: argparse.Namespace) -> int:
    """Do it and print what came of it."""
    return run_action(options, "clusters", body=lambda: _body(options), show_list=_show_list, show_one=_show_one)


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


def _show_one(cluster: Document) -> None:
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
    right = ("per node", "GPUs", "reserved", "free", "host memory")
    console().print(titled(cluster["name"], table(columns, rows, right=right)))
