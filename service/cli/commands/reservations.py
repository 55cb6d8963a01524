"""List, show, make, extend and release reservations of GPUs on the clusters of a server."""

import argparse
import re
import uuid
from pathlib import Path

from httpx import Client

from service.base.errors import InvalidRequestError
from service.cli.http import Document, add_server, ask, build_path, connect, delete, read, read_all
from service.cli.ignored import refuse_ignored
from service.cli.lifetimes import LIFE_HELP, parse_lifetime
from service.cli.model_files.json_files import read_object
from service.cli.printing import print_json
from service.cli.views.tables import add_title, make_console, make_table
from service.terminal.arguments import format_choices, make_choice_reader

ACTIONS = ("list", "show", "add", "extend", "delete")
_ACCEPTED = {
    "list": (),
    "show": ("id",),
    "add": ("holder", "gpus", "file", "life"),
    "extend": ("id", "life"),
    "delete": ("id",),
}
_GPUS = re.compile(
    r"(?P<pool>[^/=:]+)(/(?P<node>[^/=:]+))?(:(?P<mig_profile>[^/=:]+))?=(?P<num_gpus>[1-9][0-9]{0,8})"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the cluster and the GPUs."""
    parser.add_argument(
        "action",
        type=make_choice_reader(ACTIONS),
        metavar=format_choices(ACTIONS),
        help="what to do",
    )
    parser.add_argument("cluster", help="name of the cluster")
    parser.add_argument("id", nargs="?", help="id of the reservation, for show, extend and delete")
    parser.add_argument("--holder", help="who the GPUs are for, for add")
    parser.add_argument(
        "--gpus",
        action="append",
        type=_parse_gpus,
        metavar="POOL[/NODE][:MIG]=N",
        help=(
            "GPUs of a node, or of any nodes of a pool; with a MIG profile slices; may be given "
            "several times"
        ),
    )
    parser.add_argument(
        "--file",
        type=Path,
        metavar="FILE",
        help='a JSON object with "gpus" or a plan\'s "placement", for add',
    )
    parser.add_argument(
        "--for", dest="life", type=parse_lifetime, metavar="TIME", help=f"how long: {LIFE_HELP}"
    )
    parser.add_argument("--json", action="store_true", help="print the server's JSON")
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Run the action and print its result."""
    if options.action in {"show", "extend", "delete"} and options.id is None:
        message = f"which one? headroom reservations {options.action} {options.cluster} ID"
        raise InvalidRequestError(message)
    refuse_ignored(
        options, f"reservations {options.action}", takes=("cluster", *_ACCEPTED[options.action])
    )
    if options.action == "extend" and options.life is None:
        message = "until when? extend also needs --for TIME, counted from now"
        raise InvalidRequestError(message)
    body = _build_body(options) if options.action == "add" else None
    with connect(options.server) as client:
        _run_action(client, options, body)
    return 0


def _run_action(client: Client, options: argparse.Namespace, body: Document | None) -> None:
    path = ("clusters", options.cluster, "reservations")
    match options.action:
        case "list":
            items = read_all(client, build_path(*path))
            print_json(items) if options.json else _show_list(items)
        case "delete":
            delete(client, build_path(*path, options.id))
        case "extend":
            _show(_extend(client, build_path(*path, options.id), options), as_json=options.json)
        case "show":
            _show(read(client, build_path(*path, options.id)), as_json=options.json)
        case _:
            # A key makes the request safe to repeat, for the transport as well.
            headers = {"idempotency-key": str(uuid.uuid4())}
            _show(
                ask(client, "POST", build_path(*path), body=body, headers=headers).json(),
                as_json=options.json,
            )


def _extend(client: Client, path: str, options: argparse.Namespace) -> Document:
    etag = ask(client, "GET", path).headers.get("etag", "*")
    body = {"expires_in_s": options.life}
    document: Document = ask(client, "PATCH", path, body=body, headers={"if-match": etag}).json()
    return document


def _build_body(options: argparse.Namespace) -> Document:
    body: Document = {} if options.file is None else read_object(options.file)
    if options.gpus:
        body["gpus"] = options.gpus
    if options.holder is not None:
        body["holder"] = options.holder
    if options.life is not None:
        body["expires_in_s"] = options.life
    missing = [
        text
        for text, is_present in (
            ("--holder WHO", "holder" in body),
            ("--gpus POOL=N or --file FILE", "gpus" in body or "placement" in body),
            ("--for TIME", "expires_in_s" in body or "expires_at" in body),
        )
        if not is_present
    ]
    if missing:
        message = f"add also needs {', '.join(missing)}"
        raise InvalidRequestError(message)
    return body


def _parse_gpus(text: str) -> Document:
    match = _GPUS.fullmatch(text)
    if match is None:
        message = f"{text!r} is no number of GPUs; say a100/n1=4, a100=16, or a100/n1:1g.10gb=2"
        raise argparse.ArgumentTypeError(message)
    named = {name: value for name, value in match.groupdict().items() if value is not None}
    return named | {"num_gpus": int(named["num_gpus"])}


def _show_list(items: list[Document]) -> None:
    columns = ("id", "holder", "made by", "GPUs", "nodes", "until")
    rows = [
        (
            item["id"],
            item["holder"],
            item.get("created_by") or "",
            str(item["num_gpus"]),
            ", ".join(_format_node(part) for part in item["gpus"]),
            item["expires_at"],
        )
        for item in items
    ]
    make_console().print(make_table(columns, rows, right=("GPUs",)))


def _show(reservation: Document, *, as_json: bool) -> None:
    if as_json:
        print_json(reservation)
        return
    rows = [(part["pool"], part["node"], _format_gpus(part)) for part in reservation["gpus"]]
    title = f"{reservation['id']} for {reservation['holder']} until {reservation['expires_at']}"
    make_console().print(
        add_title(title, make_table(("pool", "node", "GPUs"), rows, right=("GPUs",)))
    )


def _format_node(part: Document) -> str:
    return f"{part['node']}={_format_gpus(part)}"


def _format_gpus(part: Document) -> str:
    return (
        str(part["num_gpus"])
        if part["mig_profile"] is None
        else f"{part['num_gpus']} x {part['mig_profile']}"
    )
