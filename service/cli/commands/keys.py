"""Make, list and revoke keys: in the database that DATABASE_URL names, else through a server that lets you."""

import argparse
import os
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from service.access.keys import Scope
from service.access.limits import parse_limit
from service.base.errors import InvalidRequestError
from service.cli.http import Document, add_server, ask, connect, path_of, read_all
from service.cli.ignored import refuse_ignored
from service.cli.lifetimes import LIFE_HELP, seconds_of
from service.cli.printing import print_json
from service.cli.views.tables import console, table
from service.terminal.arguments import one_of, shown

ACTIONS = ("create", "list", "revoke")
SCOPES = tuple(scope.value for scope in Scope)
_TAKEN = {"create": ("subject", "scopes", "life", "rate", "quota"), "list": (), "revoke": ("subject",)}
_COLUMNS = ("key", "name", "scopes", "state", "until", "last used")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take what to do, and what the key may."""
    parser.add_argument("action", type=one_of(ACTIONS), metavar=shown(ACTIONS), help="what to do")
    parser.add_argument(
        "subject",
        nargs="?",
        metavar="NAME|KEY",
        help="name of the new key; how the one to revoke begins, as `list` shows it, or its id",
    )
    parser.add_argument(
        "--scopes", type=_scopes, default=("read",), metavar=shown(SCOPES), help="what it may, with commas (default read)"
    )
    parser.add_argument(
        "--for", dest="life", type=seconds_of, metavar="TIME", help=f"how long it lives: {LIFE_HELP}; else until revoked"
    )
    parser.add_argument("--rate", type=_limit, metavar="N/minute", help="how often it may ask, such as 600/minute")
    parser.add_argument("--quota", type=_limit, metavar="N/day", help="how many measurements it may ask for, such as 100/day")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Do it and print what came of it."""
    if options.action != "list" and options.subject is None:
        message = f"which one? headroom keys {options.action} {'NAME' if options.action == 'create' else 'KEY'}"
        raise InvalidRequestError(message)
    refuse_ignored(options, f"keys {options.action}", takes=_TAKEN[options.action])
    in_database = options.server is None and os.environ.get("DATABASE_URL")
    found = _in_database(options) if in_database else _on_server(options)
    if options.json:
        print_json(found)
    elif options.action == "create":
        _show_new(found[0])
    else:
        _show(found)
    return 0


def _on_server(options: argparse.Namespace) -> list[Document]:
    with connect(options.server) as client:
        match options.action:
            case "list":
                return read_all(client, path_of("keys"))
            case "create":
                return [ask(client, "POST", path_of("keys"), body=_body(options)).json()]
            case _:
                key_id = _id_of(options.subject, read_all(client, path_of("keys")))
                return [ask(client, "DELETE", path_of("keys", key_id)).json()]


def _body(options: argparse.Namespace) -> Document:
    body: Document = {"name": options.subject, "scopes": list(options.scopes)}
    given = {"expires_in_s": options.life, "rate": options.rate, "quota": options.quota}
    return body | {name: value for name, value in given.items() if value is not None}


def _in_database(options: argparse.Namespace) -> list[Document]:
    # A cold `headroom keys` that asks a server loads no database driver.
    from service.cli import local_keys  # noqa: PLC0415 - as said above

    match options.action:
        case "list":
            return local_keys.list_all()
        case "create":
            life = None if options.life is None else timedelta(seconds=options.life)
            return [local_keys.create(options.subject, options.scopes, life=life, rate=options.rate, quota=options.quota)]
        case _:
            return [local_keys.revoke(UUID(_id_of(options.subject, local_keys.list_all())))]


def _id_of(subject: str, keys: Sequence[Document]) -> str:
    """Return the id of the one key that is meant: by its id, or by its beginning; a whole key is its own beginning too."""
    found = [key["id"] for key in keys if key["id"] == subject or f"{subject}_".startswith(f"{key['prefix']}_")]
    if len(found) != 1:
        message = f"there is no key {subject[:15]!r}; `headroom keys list` shows them"
        raise InvalidRequestError(message)
    return str(found[0])


def _scopes(text: str) -> tuple[str, ...]:
    read = one_of(SCOPES)
    return tuple(dict.fromkeys(read(word) for word in text.split(",")))


def _limit(text: str) -> str:
    try:
        parse_limit(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _show_new(key: Document) -> None:
    output = console()
    output.print(key["key"], soft_wrap=True, highlight=False, markup=False)
    until = f"until {key['expires_at']}" if key["expires_at"] else "until it is revoked"
    output.print(f"for {key['name']}: {', '.join(key['scopes'])}; {until}. It is not shown again.", markup=False)


def _show(keys: Sequence[Document]) -> None:
    rows = [
        (
            key["prefix"],
            key["name"],
            ", ".join(key["scopes"]),
            key["state"],
            _minute(key["expires_at"]) or "no end",
            _minute(key["last_used_at"]) or "never",
        )
        for key in keys
    ]
    console().print(table(_COLUMNS, rows))


def _minute(moment: str | None) -> str:
    return "" if moment is None else moment[:16].replace("T", " ")
