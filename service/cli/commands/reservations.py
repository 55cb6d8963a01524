"""List, show, make and release reservations of GPUs on the clusters of a server."""

import argparse
import re
import uuid
from pathlib import Path

from httpx import Client

from service.base.errors import InvalidRequestError
from service.cli.files import read_object
from service.cli.http import Document, add_server, ask, connect, delete, path_of, read, read_all
from service.cli.ignored import refuse_ignored
from service.cli.lifetimes import LIFE_HELP, seconds_of
from service.cli.printing import print_json
from service.cli.views.tables import console, table, titled
from service.terminal.arguments import one_of, shown

ACTIONS = ("list", "show", "add", "delete")
_TAKEN = {"list": (), "show": ("id",), "add": ("holder", "gpus", "file", "life"), "delete": ("id",)}
_GPUS = re.compile(r"(?P<pool>[^/=:]+)(/(?P<node>[^/=:]+))?(:(?P<mig_profile>[^/=:]+))?=(?P<num_gpus>[1-9][0-9]{0,8})")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take what to do, on which cluster, and what is wanted of it."""
    parser.add_argument("action", type=one_of(ACTIONS), metavar=shown(ACTIONS), help="what to do")
    parser.add_argument("cluster", help="name of the cluster")
    parser.add_argument("id", nargs="?", help="id of the reservation, for show and delete")
    parser.add_argument("--holder", help="who the GPUs are for, for add")
    parser.add_argument(
        "--gpus",
        action="append",
        type=_gpus,
        metavar="POOL[/NODE][:MIG]=N",
        help="GPUs of a node, or of any nodes of a pool; with a MIG profile slices; may be given several times",
    )
    parser.add_argument("--file", type=Path, metavar="FILE", help='a JSON object with "gpus" or a plan\'s "placement", for add')
    parser.add_argument("--for", dest="life", type=seconds_of, metavar="TIME", help=f"how long: {LIFE_HELP}")
    parser.add_argument("--json", action="store_true", help="print the server's JSON")
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Do it and print what came of it."""
    if options.action in {"show", "delete"} and options.id is None:
        message = f"which one? headroom reservations {options.action} {options.cluster} ID"
        raise InvalidRequestError(message)
    refuse_ignored(options, f"reservations {options.action}", takes=("cluster", *_TAKEN[options.action]))
    body = _body(options) if options.action == "add" else None
    with connect(options.server) as client:
        _act(client, options, body)
    return 0


def _act(client: Client, options: argparse.Namespace, body: Document | None) -> None:
    path = ("clusters", options.cluster, "reservations")
    match options.action:
        case "list":
            items = read_all(client, path_of(*path))
            print_json(items) if options.json else _show_list(items)
        case "delete":
            delete(client, path_of(*path, options.id))
        case "show":
            _show(read(client, path_of(*path, options.id)), as_json=options.json)
        case _:
            # A key makes the request safe to repeat, for the transport as well.
            headers = {"idempotency-key": str(uuid.uuid4())}
            _show(ask(client, "POST", path_of(*path), body=body, headers=headers).json(), as_json=options.json)


def _body(options: argparse.Namespace) -> Document:
    body: Document = {} if options.file is None else read_object(options.file)
    if options.gpus:
        body["gpus"] = options.gpus
    if options.holder is not None:
        body["holder"] = options.holder
    if options.life is not None:
        body["expires_in_s"] = options.life
    missing = [
        text
        for text, there in (
            ("--holder WHO", "holder" in body),
            ("--gpus POOL=N or --file FILE", "gpus" in body or "placement" in body),
            ("--for TIME", "expires_in_s" in body or "expires_at" in body),
        )
        if not there
    ]
    if missing:
        message = f"add also needs {', '.join(missing)}"
        raise InvalidRequestError(message)
    return body


def _gpus(text: str) -> Document:
    found = _GPUS.fullmatch(text)
    if found is None:
        message = f"{text!r} is no number of GPUs; say a100/n1=4, a100=16, or a100/n1:1g.10gb=2"
        raise argparse.ArgumentTypeError(message)
    named = {name: value for name, value in found.groupdict().items() if value is not None}
    return named | {"num_gpus": int(named["num_gpus"])}


def _show_list(items: list[Document]) -> None:
    columns = ("id", "holder", "GPUs", "nodes", "until")
    rows = [
        (
            item["id"],
            item["holder"],
            str(item["num_gpus"]),
            ", ".join(_where(part) for part in item["gpus"]),
            item["expires_at"],
        )
        for item in items
    ]
    console().print(table(columns, rows, right=("GPUs",)))


def _show(reservation: Document, *, as_json: bool) -> None:
    if as_json:
        print_json(reservation)
        return
    rows = [(part["pool"], part["node"], _what(part)) for part in reservation["gpus"]]
    title = f"{reservation['id']} for {reservation['holder']} until {reservation['expires_at']}"
    console().print(titled(title, table(("pool", "node", "GPUs"), rows, right=("GPUs",))))


def _where(part: Document) -> str:
    return f"{part['node']}={_what(part)}"


def _what(part: Document) -> str:
    return str(part["num_gpus"]) if part["mig_profile"] is None else f"{part['num_gpus']} x {part['mig_profile']}"
