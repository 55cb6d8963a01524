"""How far answers were from what a server measured, before and after it learnt from the others."""

import argparse

from service.cli.http import Document, add_server, connect, path_of, read
from service.cli.printing import print_json
from service.cli.views.tables import console, table, titled
from service.terminal.arguments import one_of, shown

QUANTITIES = ("allocated", "reserved", "device", "step_time")
DEVICES = ("cpu", "trace", "cuda")
_COLUMNS = ("kind", "quantity", "measured", "median", "p95", "bias", "covered", "after: median", "p95", "bias", "covered")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take which measurements count."""
    parser.add_argument("--family", metavar="NAME", help="of models of this family, such as llama")
    parser.add_argument("--gpu", metavar="NAME", help="on this GPU")
    parser.add_argument("--device", type=one_of(DEVICES), metavar=shown(DEVICES), help="by probes of this kind")
    parser.add_argument("--quantity", type=one_of(QUANTITIES), metavar=shown(QUANTITIES), help="of this quantity")
    parser.add_argument("--since", metavar="TIME", help="measured at or after this time, as in 2026-01-31T00:00:00Z")
    parser.add_argument("--json", action="store_true", help="print the server's JSON")
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Ask and print."""
    asked = {name: getattr(options, name) for name in ("family", "gpu", "device", "quantity", "since")}
    with connect(options.server) as client:
        found = read(client, path_of("accuracy"), **{name: value for name, value in asked.items() if value is not None})
    if options.json:
        print_json(found)
        return 0
    if not found["classes"]:
        console().print("nothing was measured here yet: ask with headroom measure")
        return 0
    rows = [_row(each) for each in found["classes"]]
    title = f"errors of answers: analytic, and after calibration with the measurement held out ({found['level']:.0%} intervals)"
    console().print(titled(title, table(_COLUMNS, rows, right=_COLUMNS[2:])))
    return 0


def _row(found: Document) -> tuple[str, ...]:
    return (found["kind"], found["quantity"], str(found["count"]), *_errors(found["before"]), *_errors(found["after"]))


def _errors(found: Document) -> tuple[str, ...]:
    covered = "-" if found["coverage"] is None else f"{found['coverage']:.0%}"
    return (_share(found["median"]), _share(found["p95"]), f"{found['bias']:+.3%}", covered)


def _share(value: float) -> str:
    return f"{value:.3%}"
