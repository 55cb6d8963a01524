"""List the workers of a server: what they measure on, whether they live, what they do now."""

import argparse

from service.cli.http import Document, add_server, build_path, connect, read_all
from service.cli.printing import print_json
from service.cli.views.tables import make_console, make_table

_COLUMNS = ("name", "host", "state", "devices", "measures", "heartbeat")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the server."""
    parser.add_argument("--json", action="store_true", help="print the server's JSON")
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Print the workers of the last day."""
    with connect(options.server) as client:
        items = read_all(client, build_path("workers"))
    if options.json:
        print_json(items)
    elif items:
        make_console().print(make_table(_COLUMNS, [_format_row(item) for item in items]))
    else:
        make_console().print("no worker was seen in the last day; start one with headroom worker")
    return 0


def _format_row(item: Document) -> tuple[str, ...]:
    return (
        item["name"],
        item["host"],
        item["state"],
        ", ".join(str(one.get("sku") or one.get("name") or one["kind"]) for one in item["devices"]),
        item["current_job"] or "",
        item["last_heartbeat"],
    )
