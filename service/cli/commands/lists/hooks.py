"""List what schedulers' hooks decided about submitted jobs, newest first: whose, what was answered,
and the line that the user read; needs the scope admin.
"""

import argparse

from service.cli.http import Document, add_server, build_path, connect, read_all
from service.cli.printing import print_json
from service.cli.views.tables import make_console, make_table
from service.terminal.arguments import parse_positive

_FILTERS = ("door", "verdict", "action", "user", "queue", "created_after", "created_before")
_COLUMNS = ("at", "door", "user", "queue", "job", "verdict", "action", "the user read")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the number of decisions, filters and the server."""
    parser.add_argument(
        "--limit", type=parse_positive, default=50, metavar="N", help="how many (default 50)"
    )
    parser.add_argument("--door", help="the scheduler that asked: slurm, kubernetes, …")
    parser.add_argument("--verdict", help="fits, tight, does_not_fit or unknown")
    parser.add_argument("--action", help="allow, warn, refuse or change")
    parser.add_argument("--user", help="who submitted the job")
    parser.add_argument("--queue", help="its namespace, account, project or partition")
    parser.add_argument("--created-after", metavar="TIME", help="RFC 3339: 2026-01-02T00:00:00Z")
    parser.add_argument("--created-before", metavar="TIME", help="RFC 3339")
    parser.add_argument("--json", action="store_true", help="print the server's JSON")
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Print the newest decisions."""
    filters = {name: value for name in _FILTERS if (value := getattr(options, name)) is not None}
    with connect(options.server) as client:
        path = build_path("hooks", "decisions")
        items = read_all(client, path, at_most=options.limit, **filters)
    if options.json:
        print_json(items)
    elif items:
        make_console().print(make_table(_COLUMNS, [_format_row(item) for item in items]))
    else:
        make_console().print("no hook decided about such a job yet")
    return 0


def _format_row(item: Document) -> tuple[str, ...]:
    repeated = f" ({item['num_times']} times)" if item["num_times"] > 1 else ""
    return (
        item["at"],
        item["door"],
        item["user"] or "",
        item["queue"] or "",
        item["job"] or "",
        item["verdict"],
        f"{item['action']}{repeated}",
        item["sentence"],
    )
