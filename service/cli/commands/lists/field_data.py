"""List who handed in measurements, approve them or withdraw them; needs the scope admin."""

import argparse

from service.base.errors import InvalidRequestError
from service.cli.http import Document, add_server, ask, build_path, connect, read
from service.cli.printing import print_json
from service.cli.views.tables import make_console, make_table
from service.terminal.arguments import format_choices, make_choice_reader

ACTIONS = ("list", "approve", "withdraw")
_COLUMNS = ("source", "key", "cluster", "waiting", "held apart", "approved", "withdrawn", "newest")
_NUMBERS = ("waiting", "held apart", "approved", "withdrawn")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the source and the measurements."""
    parser.usage = (
        "%(prog)s [list]\n"
        "       %(prog)s approve --source NAME [--cluster NAME] | ID…\n"
        "       %(prog)s withdraw --source NAME [--cluster NAME]"
    )
    parser.add_argument(
        "action",
        nargs="?",
        type=make_choice_reader(ACTIONS),
        metavar=format_choices(ACTIONS),
        default="list",
        help="what to do (default list)",
    )
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help="measurements to approve, those held apart included"
    )
    parser.add_argument("--source", metavar="NAME", help="name of the key that handed them in")
    parser.add_argument(
        "--cluster", metavar="NAME", help="only what the source says was measured on this cluster"
    )
    parser.add_argument("--json", action="store_true", help="print the server's JSON")
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Run the action and print what came of it."""
    with connect(options.server) as client:
        if options.action == "list":
            _refuse_words(options)
            answer = read(client, build_path("field-data"))
            print_json(answer) if options.json else _show(answer["items"])
            return 0
        body = _build_body(options)
        answer = ask(client, "POST", build_path("field-data", options.action), body=body).json()
    print_json(answer) if options.json else make_console().print(_describe(options.action, answer))
    return 0


def _refuse_words(options: argparse.Namespace) -> None:
    if options.ids or options.source or options.cluster:
        message = "a list is of every source; say approve or withdraw with a source or ids"
        raise InvalidRequestError(message)


def _build_body(options: argparse.Namespace) -> Document:
    if (options.source is None) == (not options.ids):
        message = f"which? headroom field-data {options.action} --source NAME" + (
            ", or ID…" if options.action == "approve" else ""
        )
        raise InvalidRequestError(message)
    if options.source is not None:
        named = {} if options.cluster is None else {"cluster": options.cluster}
        return {"source": options.source, **named}
    if options.cluster is not None:
        message = "ids say which measurements are meant: leave --cluster out"
        raise InvalidRequestError(message)
    if options.action == "withdraw":
        message = "headroom measurements withdraw ID withdraws a measurement; here it is a source"
        raise InvalidRequestError(message)
    return {"ids": options.ids}


def _show(items: list[Document]) -> None:
    if not items:
        make_console().print("nobody handed in measurements yet")
        return
    rows = [
        (
            item["source"],
            item["source_key"] or "-",
            item["cluster"] or "-",
            *(str(item[f"num_{state}"]) for state in ("pending", "held", "approved", "withdrawn")),
            item["newest_at"],
        )
        for item in items
    ]
    make_console().print(make_table(_COLUMNS, rows, right=_NUMBERS))


def _describe(action: str, answer: Document) -> str:
    verb = {"approve": "approved", "withdraw": "withdrawn"}[action]
    more = "; the source has more: ask again" if answer["has_more"] else ""
    return f"{answer['num_changed']} measurements {verb}{more}"
