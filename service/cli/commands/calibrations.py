"""What a server learnt from measurements: list it, show what models have in common, measure it
again.
"""

import argparse
import uuid
from collections.abc import Iterator

from httpx import Client

from service.base.errors import InvalidRequestError
from service.cli.http import Document, add_server, ask, build_path, connect, read, read_all
from service.cli.ignored import refuse_ignored
from service.cli.printing import print_json
from service.cli.views.tables import make_console, make_table
from service.terminal.arguments import format_choices, make_choice_reader

ACTIONS = ("list", "pools", "remeasure")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action and its id."""
    parser.add_argument(
        "action",
        nargs="?",
        type=make_choice_reader(ACTIONS),
        metavar=format_choices(ACTIONS),
        default="list",
        help="what to do (default list)",
    )
    parser.add_argument("id", nargs="?", help="id of the calibration, for remeasure")
    parser.add_argument("--json", action="store_true", help="print the server's JSON")
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Run the action and print its result."""
    if options.action == "remeasure" and options.id is None:
        message = "which one? headroom calibrations remeasure ID"
        raise InvalidRequestError(message)
    refuse_ignored(
        options,
        f"calibrations {options.action}",
        takes=("id",) if options.action == "remeasure" else (),
    )
    with connect(options.server) as client:
        match options.action:
            case "list":
                items = read_all(client, build_path("calibrations"))
                print_json(items) if options.json else _show_list(items)
            case "pools":
                pools = read(client, build_path("calibrations", "pools"))["items"]
                print_json(pools) if options.json else _show_pools(pools)
            case _:
                queued = _remeasure(client, options.id)
                print_json(queued) if options.json else make_console().print(
                    "\n".join(_describe_queued(queued))
                )
    return 0


def _remeasure(client: Client, calibration_id: str) -> Document:
    # A key makes the request safe to repeat, for the transport as well.
    headers = {"idempotency-key": str(uuid.uuid4())}
    path = build_path("calibrations", calibration_id, "remeasure")
    answer: Document = ask(client, "POST", path, headers=headers).json()
    return answer


def _describe_queued(queued: Document) -> Iterator[str]:
    for name in queued["measurements"]:
        yield f"queued: measurement {name}"


def _show_list(items: list[Document]) -> None:
    columns = ("id", "quantity", "family", "kind", "measurements", "environment", "state")
    rows = [
        (
            item["id"],
            item["quantity"],
            item["family"],
            item["kind"],
            str(len(item["evidence"])),
            item["environment"],
            _describe_state(item["drift"]),
        )
        for item in items
    ]
    make_console().print(make_table(columns, rows, right=("measurements",)))


def _describe_state(drift: Document) -> str:
    newer = (
        f"{drift['outside']} of {drift['measured']} newer ones outside" if drift["measured"] else ""
    )
    if drift["drifting"]:
        return f"drifting: {newer}"
    if drift["stale"]:
        return f"stale: {drift['current_environment']} runs now{': ' if newer else ''}{newer}"
    return f"holds{': ' if newer else ''}{newer}"


def _show_pools(pools: list[Document]) -> None:
    columns = ("level", "quantity", "name", "keys", "measurements", "adds", "half width")
    rows = [
        (
            pool["level"],
            pool["quantity"],
            pool["name"],
            str(pool["keys"]),
            str(pool["measurements"]),
            ", ".join(f"{name} {share:+.2%}" for name, share in pool["shares"].items())
            or "nothing",
            "-" if pool["half_width"] is None else f"{pool['half_width']:.2%}",
        )
        for pool in pools
    ]
    make_console().print(make_table(columns, rows, right=("keys", "measurements", "half width")))
