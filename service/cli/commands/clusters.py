"""List, show, store, import, watch and delete the cluster inventories of a server."""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from service.base.errors import InvalidRequestError
from service.cli.cluster_imports.repeating import Rounds, repeat, run_command, stop_on_signals
from service.cli.cluster_imports.sending import FIELDS, add_import, build_body, read_contents, send
from service.cli.http import Document, connect
from service.cli.model_files.json_files import read_object
from service.cli.printing import print_json
from service.cli.resources import ACTIONS, add_actions, require_name, run_action
from service.cli.views.cluster_imports import show_import
from service.cli.views.tables import add_title, make_console, make_table, show_bytes
from service.terminal.arguments import Parser, parse_positive

_SHOWN_NODES = 16
_UNAVAILABLE = {"drained_gpus": "drained", "mig_gpus": "in slices"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the cluster and its file."""
    parser.usage = (
        "%(prog)s [list]\n"
        "       %(prog)s show|delete NAME [--end-reservations]\n"
        "       %(prog)s add|replace NAME --file FILE\n"
        "       %(prog)s import NAME --from FILE|- [--gpu NAME=GPU …] [--apply]\n"
        "       %(prog)s watch NAME [--every SECONDS] [--rounds N] -- COMMAND …"
    )
    add_actions(parser, noun="cluster", actions=(*ACTIONS, "import", "watch"))
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help='a JSON object with "pools", for add and replace'
    )
    parser.add_argument(
        "--end-reservations",
        action="store_true",
        help="with delete: end what is reserved on it as well",
    )
    group = parser.add_argument_group("import and watch")
    add_import(group)
    group.add_argument(
        "--apply", action="store_true", help="store it; without, what would change is shown"
    )
    group.add_argument(
        "--every",
        type=parse_positive,
        default=60,
        metavar="SECONDS",
        help="with watch: how often the command behind -- is run (default 60)",
    )
    group.add_argument(
        "--rounds",
        type=parse_positive,
        metavar="N",
        help="with watch: how often in all (default: until Ctrl-C)",
    )
    if isinstance(parser, Parser):
        parser.accept_command("command")


def run(options: argparse.Namespace) -> int:
    """Run the action and print its result."""
    if options.command and options.action != "watch":
        message = f"`headroom clusters {options.action}` takes no command behind --; watch does"
        raise InvalidRequestError(message)
    if options.action in ("import", "watch"):
        return _import(options) if options.action == "import" else _watch(options)
    return run_action(
        options,
        "clusters",
        body=lambda: _read_body(options),
        show_list=_show_list,
        show_one=show_cluster,
    )


def _import(options: argparse.Namespace) -> int:
    """Show what a tool's output changes, and store it with ``--apply``."""
    require_name(options, "clusters", takes=("name", *FIELDS))
    body = build_body(options, read_contents(options.from_files))
    with connect(options.server) as client:
        answer, etag = send(client, options.name, body)
        if options.apply:
            answer, _ = send(client, options.name, body, etag=etag, applies=True)
    print_json(answer) if options.json else show_import(answer)
    if not options.apply and answer["num_changes"] and not options.json:
        make_console().print("nothing is stored; --apply stores it", markup=False)
    return 0


def _watch(options: argparse.Namespace) -> int:
    """Import what a command prints, again and again."""
    require_name(options, "clusters", takes=("name", "every", "rounds", *FIELDS[1:-1]))
    if not options.command:
        message = (
            "which command? it stands behind --: headroom clusters watch "
            f"{options.name} -- kubectl get nodes,pods -A -o json"
        )
        raise InvalidRequestError(message)
    with stop_on_signals() as stop:

        def send_output(
            output: str, *, etag: str | None = None, applies: bool = False
        ) -> tuple[Document, str | None]:
            with connect(options.server) as client:
                body = build_body(options, [output])
                return send(client, options.name, body, etag=etag, applies=applies)

        return repeat(
            lambda: run_command(options.command, stop),
            send_output,
            print_json if options.json else show_import,
            Rounds(interval_s=options.every, limit=options.rounds or 0),
            stop.wait,
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
