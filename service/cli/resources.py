"""Shared actions of stored resources: list, show, add, replace, delete.

Each but the list takes a name.
"""

import argparse
from collections.abc import Callable, Sequence

from httpx import Client

from service.base.errors import InvalidRequestError, ServiceError
from service.cli.http import (
    Document,
    add_server,
    ask,
    build_path,
    connect,
    delete,
    read,
    read_all,
    replace,
)
from service.cli.ignored import refuse_ignored
from service.cli.printing import print_json
from service.terminal.arguments import format_choices, make_choice_reader

ACTIONS = ("list", "show", "add", "replace", "delete")
_STORED = ("name", "config", "file", "wait")
_ACCEPTED = {
    "list": (),
    "show": ("name",),
    "add": _STORED,
    "replace": _STORED,
    "delete": ("name", "end_reservations"),
}


def add_actions(
    parser: argparse.ArgumentParser, *, noun: str, actions: Sequence[str] = ACTIONS
) -> None:
    """Add the action and the name it applies to."""
    parser.add_argument(
        "action",
        nargs="?",
        type=make_choice_reader(actions),
        metavar=format_choices(actions),
        default="list",
        help="what to do (default list)",
    )
    parser.add_argument("name", nargs="?", help=f"name of the {noun}")
    parser.add_argument("--json", action="store_true", help="print the server's JSON")
    add_server(parser)


def run_action(
    options: argparse.Namespace,
    collection: str,
    *,
    body: Callable[[], Document],
    show_list: Callable[[list[Document]], None],
    show_one: Callable[[Document], None],
) -> int:
    """Run an action on a stored resource.

    ``body`` makes what is stored, under the name that the command line gives.
    """
    require_name(options, collection)
    with connect(options.server) as client:
        if options.action == "list":
            items = read_all(client, build_path(collection))
            print_json(items) if options.json else show_list(items)
        elif options.action == "delete":
            _delete(client, options, collection)
        else:
            document = _get_document(client, options, collection, body)
            print_json(document) if options.json else show_one(document)
    return 0


def require_name(
    options: argparse.Namespace, collection: str, *, takes: Sequence[str] | None = None
) -> None:
    """Refuse a missing name, and arguments that would be ignored.

    ``takes`` are the arguments of an action that other resources do not have.
    """
    if options.action != "list" and options.name is None:
        message = f"{options.action} needs a name: headroom {collection} {options.action} NAME"
        raise InvalidRequestError(message)
    refuse_ignored(
        options,
        f"{collection} {options.action}",
        takes=_ACCEPTED[options.action] if takes is None else takes,
    )


def _delete(client: Client, options: argparse.Namespace, collection: str) -> None:
    query = "?end_reservations=true" if getattr(options, "end_reservations", False) else ""
    try:
        delete(client, build_path(collection, options.name), query=query)
    except ServiceError as error:
        raise ServiceError(
            error.detail.replace("end_reservations=true", "--end-reservations")
        ) from error


def _get_document(
    client: Client, options: argparse.Namespace, collection: str, body: Callable[[], Document]
) -> Document:
    path = build_path(collection, options.name)
    if options.action == "show":
        return read(client, path)
    if options.action == "replace":
        return replace(client, path, body())
    try:
        stored: Document = ask(
            client, "POST", build_path(collection), body={"name": options.name, **body()}
        ).json()
    except ServiceError as error:
        raise ServiceError(
            translate_to_command(error.detail, f"{collection} replace {options.name}")
        ) from error
    return stored


def translate_to_command(message: str, command: str) -> str:
    """Replace the HTTP method in a refusal by a command."""
    return message.replace("with PUT", f"with `headroom {command}`")
