"""Make, list and revoke keys: in the database that DATABASE_URL names, else through a server that
lets you.
"""

import argparse
import os
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from service.access.keys import Scope
from service.access.limits import parse_limit
from service.base.errors import InvalidRequestError
from service.cli.http import Document, add_server, ask, build_path, connect, read_all
from service.cli.ignored import refuse_ignored
from service.cli.lifetimes import LIFE_HELP, parse_lifetime
from service.cli.printing import print_json
from service.cli.views.tables import make_console, make_table
from service.terminal.arguments import format_choices, make_choice_reader

ACTIONS = ("create", "list", "revoke")
SCOPES = tuple(scope.value for scope in Scope)
_ACCEPTED = {
    "create": ("subject", "scopes", "life", "rate", "quota"),
    "list": (),
    "revoke": ("subject",),
}
_COLUMNS = ("key", "name", "scopes", "state", "until", "last used")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action and what the key may do."""
    parser.add_argument(
        "action",
        type=make_choice_reader(ACTIONS),
        metavar=format_choices(ACTIONS),
        help="what to do",
    )
    parser.add_argument(
        "subject",
        nargs="?",
        metavar="NAME|KEY",
        help="name of the new key; how the one to revoke begins, as `list` shows it, or its id",
    )
    parser.add_argument(
        "--scopes",
        type=_parse_scopes,
        default=("read",),
        metavar=format_choices(SCOPES),
        help="what it may, with commas (default read)",
    )
    parser.add_argument(
        "--for",
        dest="life",
        type=parse_lifetime,
        metavar="TIME",
        help=f"how long it lives: {LIFE_HELP}; else until revoked",
    )
    parser.add_argument(
        "--rate",
        type=_parse_limit,
        metavar="N/minute",
        help="how often it may ask, such as 600/minute",
    )
    parser.add_argument(
        "--quota",
        type=_parse_limit,
        metavar="N/day",
        help="how many measurements it may ask for, such as 100/day",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Run the action and print its result."""
    if options.action != "list" and options.subject is None:
        message = (
            f"which one? headroom keys {options.action} "
            f"{'NAME' if options.action == 'create' else 'KEY'}"
        )
        raise InvalidRequestError(message)
    refuse_ignored(options, f"keys {options.action}", takes=_ACCEPTED[options.action])
    in_database = options.server is None and os.environ.get("DATABASE_URL")
    documents = _run_in_database(options) if in_database else _run_on_server(options)
    if options.json:
        print_json(documents)
    elif options.action == "create":
        _show_new(documents[0])
    else:
        _show(documents)
    return 0


def _run_on_server(options: argparse.Namespace) -> list[Document]:
    with connect(options.server) as client:
        match options.action:
            case "list":
                return read_all(client, build_path("keys"))
            case "create":
                return [ask(client, "POST", build_path("keys"), body=_build_body(options)).json()]
            case _:
                key_id = _find_id(options.subject, read_all(client, build_path("keys")))
                return [ask(client, "DELETE", build_path("keys", key_id)).json()]


def _build_body(options: argparse.Namespace) -> Document:
    body: Document = {"name": options.subject, "scopes": list(options.scopes)}
    optional_fields = {"expires_in_s": options.life, "rate": options.rate, "quota": options.quota}
    return body | {name: value for name, value in optional_fields.items() if value is not None}


def _run_in_database(options: argparse.Namespace) -> list[Document]:
    # A cold `headroom keys` that asks a server loads no database driver.
    from service.cli import local_keys  # noqa: PLC0415 - as said above

    match options.action:
        case "list":
            return local_keys.list_all()
        case "create":
            life = None if options.life is None else timedelta(seconds=options.life)
            return [
                local_keys.create(
                    options.subject,
                    options.scopes,
                    life=life,
                    rate=options.rate,
                    quota=options.quota,
                ),
            ]
        case _:
            return [local_keys.revoke(UUID(_find_id(options.subject, local_keys.list_all())))]


def _find_id(subject: str, keys: Sequence[Document]) -> str:
    """Return the id of the one key that is meant.

    By its id, or by its beginning; a complete key is its own beginning too.
    """
    matches = [
        key["id"]
        for key in keys
        if key["id"] == subject or f"{subject}_".startswith(f"{key['prefix']}_")
    ]
    if len(matches) != 1:
        message = f"there is no key {subject[:15]!r}; `headroom keys list` shows them"
        raise InvalidRequestError(message)
    return str(matches[0])


def _parse_scopes(text: str) -> tuple[str, ...]:
    read = make_choice_reader(SCOPES)
    return tuple(dict.fromkeys(read(word) for word in text.split(",")))


def _parse_limit(text: str) -> str:
    try:
        parse_limit(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _show_new(key: Document) -> None:
    output = make_console()
    output.print(key["key"], soft_wrap=True, highlight=False, markup=False)
    until = f"until {key['expires_at']}" if key["expires_at"] else "until it is revoked"
    output.print(
        f"for {key['name']}: {', '.join(key['scopes'])}; {until}. It is not shown again.",
        markup=False,
    )


def _show(keys: Sequence[Document]) -> None:
    rows = [
        (
            key["prefix"],
            key["name"],
            ", ".join(key["scopes"]),
            key["state"],
            _format_minute(key["expires_at"]) or "no end",
            _format_minute(key["last_used_at"]) or "never",
        )
        for key in keys
    ]
    make_console().print(make_table(_COLUMNS, rows))


def _format_minute(moment: str | None) -> str:
    return "" if moment is None else moment[:16].replace("T", " ")
