"""List the changes that were asked for with a key, newest first: by whom, and how they were
answered; needs the scope admin.
"""

import argparse

from service.cli.http import Document, add_server, build_path, connect, read_all
from service.cli.printing import print_json
from service.cli.views.tables import make_console, make_table
from service.terminal.arguments import parse_positive

_COLUMNS = ("at", "by", "operation", "path", "answered", "from")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the number of changes and the server."""
    parser.add_argument(
        "--limit", type=parse_positive, default=50, metavar="N", help="how many (default 50)"
    )
    parser.add_argument("--json", action="store_true", help="print the server's JSON")
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Print the newest changes."""
    with connect(options.server) as client:
        items = read_all(client, build_path("audit"), at_most=options.limit)
    if options.json:
        print_json(items)
    elif items:
        rows = [_format_row(item) for item in items]
        make_console().print(make_table(_COLUMNS, rows, right=("answered",)))
    else:
        make_console().print("no change was asked for yet")
    return 0


def _format_row(item: Document) -> tuple[str, ...]:
    return (
        item["at"],
        item["principal"],
        item["operation"],
        f"{item['method']} {item['path']}",
        str(item["status"]),
        item["peer"] or "",
    )
