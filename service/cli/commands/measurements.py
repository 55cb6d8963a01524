"""List, show, export and withdraw measurements, fetch their files, and import what was measured
without a probe.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence

from httpx import Client

from service.base.errors import InvalidRequestError
from service.cli.flags import add_fields
from service.cli.http import Document, add_server, ask, build_path, connect, read, read_refusal
from service.cli.ignored import refuse_ignored
from service.cli.imports import STDIN, add_import, build_question, send_file
from service.cli.printing import print_json
from service.cli.views.artifacts import add_output, download
from service.cli.views.measurements import show_import, show_measurement, show_rows
from service.terminal.arguments import ERROR, format_choices, make_choice_reader

ACTIONS = ("list", "show", "export", "import", "withdraw", "artifact")
_FILTERS = (
    "model",
    "gpu",
    "family",
    "task",
    "source",
    "status",
    "device",
    "sort",
    "error_at_least",
    "error_at_most",
)
_TIMES = ("created_after", "created_before")
_MAX_ROWS = 200
_IMPORT_FIELDS = (
    "names",
    "model",
    "gpu",
    "task",
    "format",
    "config",
    "match",
    "jobs",
    "environment",
    "cluster",
    "yes",
)
_ACCEPTED: dict[str, Sequence[str]] = {
    "list": (*_FILTERS, *_TIMES),
    "show": ("names",),
    "export": (*_FILTERS, *_TIMES),
    "import": _IMPORT_FIELDS,
    "withdraw": ("names",),
    "artifact": ("names", "output"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the measurements and what an import ran."""
    parser.usage = (
        "%(prog)s [list|export] [--model NAME --gpu GPU --sort=-error …]\n"
        "       %(prog)s show|withdraw ID\n"
        "       %(prog)s artifact ID NAME [-o FILE]\n"
        "       %(prog)s import FILE… --model NAME --task train|serve [WORD …] [--gpu GPU] [--yes]"
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
        "names",
        nargs="*",
        metavar="ID|FILE",
        help="id of a measurement (and name of an artifact), or files to import (- is stdin)",
    )
    parser.add_argument("--model", help="name of a model: which are listed, or which ran")
    parser.add_argument(
        "--gpu",
        help="name of a GPU: which are listed, or what it ran on, where the file does not say it",
    )
    tasks = ("train", "serve")
    parser.add_argument(
        "--task", type=make_choice_reader(tasks), metavar=format_choices(tasks), help="what ran"
    )
    _add_filters(parser.add_argument_group("list and export"))
    add_import(parser.add_argument_group("import"))
    add_output(parser.add_argument_group("artifact"))
    add_fields(parser)
    parser.add_argument(
        "--json", action="store_true", help="print the server's JSON; exported rows one a line"
    )
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Run the action and print its result.

    The code is 2 when a file contradicts what is said to have run, or holds nothing of it.
    """
    takes = _ACCEPTED[options.action]
    refuse_ignored(
        options,
        f"measurements {options.action}",
        takes=takes,
        takes_fields=options.action == "import",
    )
    with connect(options.server) as client:
        match options.action:
            case "import":
                return _import(client, options)
            case "show":
                measurement = read(client, build_path("measurements", _require_one_name(options)))
                print_json(measurement) if options.json else show_measurement(measurement)
            case "withdraw":
                path = build_path("measurements", _require_one_name(options), "withdraw")
                measurement = ask(client, "POST", path).json()
                print_json(measurement) if options.json else show_measurement(measurement)
            case "export":
                _export(client, options)
            case "artifact":
                download(client, options.names, options.output)
            case _:
                _show_list(client, options)
    return 0


def _add_filters(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--family", help="family of models")
    group.add_argument(
        "--source",
        type=make_choice_reader(("probe", "import")),
        metavar="{probe,import}",
        help="who measured",
    )
    group.add_argument("--status", help="state of the measurement")
    group.add_argument("--device", help="where the probe ran: cpu, trace or cuda")
    group.add_argument(
        "--error-at-least",
        metavar="SHARE",
        help="predictions that were off by this share or more: 0.05",
    )
    group.add_argument(
        "--error-at-most", metavar="SHARE", help="predictions that were off by this share at most"
    )
    group.add_argument("--created-after", metavar="TIME", help="RFC 3339: 2026-01-02T00:00:00Z")
    group.add_argument("--created-before", metavar="TIME", help="RFC 3339")
    orders = ("-created_at", "created_at", "-error", "error")
    group.add_argument(
        "--sort",
        type=make_choice_reader(orders),
        metavar=format_choices(orders),
        help="what comes first (--sort=-error: the worst)",
    )


def _require_one_name(options: argparse.Namespace) -> str:
    if len(options.names) != 1:
        message = f"which one? headroom measurements {options.action} ID"
        raise InvalidRequestError(message)
    return str(options.names[0])


def _collect_filters(options: argparse.Namespace) -> dict[str, str]:
    return {
        name: value
        for name in (*_FILTERS, *_TIMES)
        if (value := getattr(options, name)) is not None
    }


def _show_list(client: Client, options: argparse.Namespace) -> None:
    page = read(
        client,
        build_path("measurements"),
        format="rows",
        limit=str(_MAX_ROWS),
        **_collect_filters(options),
    )
    print_json(page) if options.json else show_rows(
        page["items"], has_more=page["next_cursor"] is not None
    )


def _export(client: Client, options: argparse.Namespace) -> None:
    """Write the complete table as it arrives.

    As CSV, or one JSON row per line.
    """
    filters = _collect_filters(options)
    if options.json:
        for row in _iter_rows(client, filters):
            sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
        return
    with client.stream(
        "GET", build_path("measurements"), params={"format": "csv", **filters}
    ) as stream:
        if not stream.is_success:
            raise read_refusal(stream)
        for part in stream.iter_text():
            sys.stdout.write(part)


def _iter_rows(client: Client, filters: dict[str, str]) -> Iterator[Document]:
    query = {"format": "rows", "limit": str(_MAX_ROWS), **filters}
    while True:
        page = read(client, build_path("measurements"), **query)
        yield from page["items"]
        if not page["next_cursor"]:
            return
        query["cursor"] = page["next_cursor"]


def _import(client: Client, options: argparse.Namespace) -> int:
    files = options.names or ([] if sys.stdin.isatty() else [STDIN])
    if not files:
        message = "which file? headroom measurements import FILE… --model NAME --task train|serve"
        raise InvalidRequestError(message)
    question = build_question(options)
    answers = [send_file(client, name, question, dry_run=not options.yes) for name in files]
    if options.json:
        print_json(answers if len(answers) > 1 else answers[0])
    else:
        for name, answer in zip(files, answers, strict=True):
            show_import(name, answer)
    # A job that imports every night must hear of a file in which nothing was found, as of one that
    # was refused.
    is_complete = all(
        answer["items"] and all(item["status"] != "refused" for item in answer["items"])
        for answer in answers
    )
    return 0 if is_complete else ERROR
